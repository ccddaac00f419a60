//! A loaded model: tokenizer, weights, and the few questions that can be put to it in one pass.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Tensor};
use gradus_kernels::Precision;
use serde_json::Value;

use crate::batch::{Batch, Forest};
use crate::config::DecoderConfig;
use crate::decoder::Decoder;
use crate::encoder::{Encoder, Pooling, pool};
use crate::gguf::Gguf;
use crate::head::Head;
use crate::models::{self, ModelPath};
use crate::text::Tokenizer;
use crate::weights::{Adapter, Checkpoint, Loader};
use crate::{Device, Error, Result, ops};

/// Rows whose logits over the whole vocabulary exist at once, where the host reads them or makes them.
const LOGIT_ROWS: usize = 64;
/// Logits that exist at once on a GPU, where only the targets' are read: half a gigabyte in bf16.
const GPU_LOGITS: usize = 1 << 28;

/// Options for loading a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadOptions {
    /// Where it runs.
    pub device: Device,
    /// Arithmetic of matrix products. By default bf16x3 for f32 and f16 weights, bf16 for the rest and on GPUs.
    pub precision: Option<Precision>,
    /// Expand quantized weights when they are loaded: more memory, and faster for prompts. By default GPUs do it, and CPUs
    /// expand a copy for prompts if it is small; `Some(false)` is for neither.
    pub dequantize: Option<bool>,
    /// A LoRA adapter in PEFT's layout, to put on top.
    pub adapter: Option<PathBuf>,
}

/// A loaded model.
pub struct Model {
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) body: ModelBody,
    path: PathBuf,
}

pub(crate) enum ModelBody {
    Decoder(Box<Decoder>, Option<Head>),
    Encoder(Box<Encoder>),
}

impl Model {
    /// Loads a model from a folder or a GGUF file.
    pub fn load(path: &ModelPath, options: &LoadOptions) -> Result<Self> {
        let device = options.device.open()?;
        match path {
            ModelPath::Folder(folder) => Self::from_folder(folder, device, options),
            ModelPath::Gguf(file) => Self::from_gguf(file, device, options),
        }
    }

    fn from_folder(folder: &Path, device: candle_core::Device, options: &LoadOptions) -> Result<Self> {
        if models::is_adapter(folder) {
            return Err(Error::model(
                folder,
                "it is an adapter and no model: name its base as the model, and this folder with --adapter",
            ));
        }
        let encoder = is_encoder(folder)?;
        let config = if encoder { None } else { Some(DecoderConfig::from_folder(folder)?) };
        let tokenizer = Arc::new(Tokenizer::from_folder(folder)?);
        let mut loader = loader(Checkpoint::open_folder(folder)?, device, options)?;
        let body = match config {
            None => ModelBody::Encoder(Box::new(Encoder::load(folder, &mut loader)?)),
            Some(config) => decoder(config, &mut loader)?,
        };
        loader.finish()?;
        Ok(Self { tokenizer, body, path: folder.to_owned() })
    }

    fn from_gguf(path: &Path, device: candle_core::Device, options: &LoadOptions) -> Result<Self> {
        let file = Arc::new(Gguf::open(path)?);
        let config = DecoderConfig::from_gguf(&file)?;
        let tokenizer = Arc::new(Tokenizer::from_gguf(&file)?);
        let checkpoint = Checkpoint::from_gguf(file, config.heads, config.kv_heads);
        let mut loader = loader(checkpoint, device, options)?;
        let body = decoder(config, &mut loader)?;
        loader.finish()?;
        Ok(Self { tokenizer, body, path: path.to_owned() })
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// The architecture's name in the checkpoint.
    pub fn architecture(&self) -> &str {
        match &self.body {
            ModelBody::Decoder(decoder, _) => &decoder.config.architecture,
            ModelBody::Encoder(_) => "bert",
        }
    }

    /// Context length in tokens.
    pub fn context(&self) -> usize {
        match &self.body {
            ModelBody::Decoder(decoder, _) => decoder.config.context,
            ModelBody::Encoder(encoder) => encoder.limit,
        }
    }

    /// Whether it turns texts into vectors and does nothing else.
    pub fn is_encoder(&self) -> bool {
        matches!(self.body, ModelBody::Encoder(_))
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        match &self.body {
            ModelBody::Decoder(decoder, _) => decoder.bytes(),
            ModelBody::Encoder(_) => 0,
        }
    }

    /// The decoder, to be trained.
    pub fn decoder_mut(&mut self) -> Result<&mut Decoder> {
        match &mut self.body {
            ModelBody::Decoder(decoder, _) => Ok(decoder),
            ModelBody::Encoder(_) => Err(Error::model(&self.path, "sentence encoders cannot be trained")),
        }
    }

    /// The reward head, to be set or trained.
    pub fn head_mut(&mut self) -> Result<&mut Option<Head>> {
        match &mut self.body {
            ModelBody::Decoder(_, head) => Ok(head),
            ModelBody::Encoder(_) => Err(Error::model(&self.path, "sentence encoders cannot be trained")),
        }
    }

    /// The decoder, or an error that says what the model is instead.
    pub fn decoder(&self) -> Result<&Decoder> {
        match &self.body {
            ModelBody::Decoder(decoder, _) => Ok(decoder),
            ModelBody::Encoder(_) => Err(Error::model(
                &self.path,
                "this is a sentence encoder: it embeds texts and cannot generate or score",
            )),
        }
    }

    /// The reward head, if there is one.
    pub fn any_head(&self) -> Option<&Head> {
        match &self.body {
            ModelBody::Decoder(_, head) => head.as_ref(),
            ModelBody::Encoder(_) => None,
        }
    }

    /// The decoder of a language model, or an error where it has a reward head: that one was trained, and not tokens.
    pub(crate) fn language_head(&self) -> Result<&Decoder> {
        match self.any_head() {
            None => self.decoder(),
            Some(head) => Err(Error::model(
                &self.path,
                format!(
                    "the profile compares two tokens and this model has a {}: use a profile that reads it",
                    head.describe()
                ),
            )),
        }
    }

    /// The reward head, or an error that says what the model has instead.
    pub(crate) fn head(&self, wanted: &str) -> Result<&Head> {
        match &self.body {
            ModelBody::Decoder(_, Some(head)) if head.describe() == wanted => Ok(head),
            ModelBody::Decoder(_, Some(head)) => Err(Error::model(
                &self.path,
                format!("the profile reads a {wanted} and this model has a {}", head.describe()),
            )),
            _ => {
                Err(Error::model(&self.path, format!("the profile reads a {wanted} and this model has none")))
            }
        }
    }

    /// Final hidden states at chosen positions: `(forest, node, offset)` each. One pass for all forests together.
    pub(crate) fn hidden(&self, forests: &[Forest], reads: &[(usize, usize, usize)]) -> Result<Tensor> {
        let decoder = self.decoder()?;
        let mut batch = Batch::default();
        let starts: Vec<Vec<usize>> = forests.iter().map(|forest| batch.add(forest)).collect();
        let hidden = decoder.forward(&batch, None)?;
        let rows: Vec<u32> =
            reads.iter().map(|(forest, node, offset)| (starts[*forest][*node] + offset) as u32).collect();
        Ok(hidden.index_select(&Tensor::new(rows, decoder.device())?, 0)?)
    }

    /// Log-probabilities of `targets`, one for each row of `hidden`. Logits exist for a few rows at a time only.
    pub(crate) fn target_logprobs(&self, hidden: &Tensor, targets: &[u32]) -> Result<Vec<f32>> {
        let decoder = self.decoder()?;
        let mut logprobs = Vec::with_capacity(targets.len());
        let at_once = match decoder.device().is_cuda() {
            true => (GPU_LOGITS / decoder.config.vocabulary).max(1),
            false => LOGIT_ROWS,
        };
        for (chunk, targets) in targets.chunks(at_once).enumerate() {
            let rows = hidden.narrow(0, chunk * at_once, targets.len())?;
            logprobs.extend(ops::token_logprobs(&decoder.raw_logits(&rows, None)?, targets)?);
        }
        Ok(logprobs)
    }

    /// Hands out the logits of each row of `hidden`, which exist for a few rows at a time only.
    pub(crate) fn each_logits(
        &self,
        hidden: &Tensor,
        rows: usize,
        mut each: impl FnMut(usize, &[f32]),
    ) -> Result<()> {
        let decoder = self.decoder()?;
        for first in (0..rows).step_by(LOGIT_ROWS) {
            let some = hidden.narrow(0, first, LOGIT_ROWS.min(rows - first))?;
            let logits: Vec<Vec<f32>> = decoder.logits(&some, None)?.to_dtype(DType::F32)?.to_vec2()?;
            logits.iter().enumerate().for_each(|(row, logits)| each(first + row, logits));
        }
        Ok(())
    }

    /// One vector per text: the encoder's, or the mean of a decoder's hidden states.
    pub(crate) fn embed(&self, texts: &[Vec<u32>]) -> Result<(usize, Vec<f32>)> {
        match &self.body {
            ModelBody::Encoder(encoder) => Ok((encoder.dimension, encoder.forward(texts)?)),
            ModelBody::Decoder(decoder, _) => {
                let mut batch = Batch::default();
                for text in texts {
                    batch.add(&Forest::sequence(text.clone()));
                }
                let hidden = decoder.forward(&batch, None)?.to_dtype(DType::F32)?;
                let rows: Vec<f32> = hidden.flatten_all()?.to_vec1()?;
                let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
                let width = decoder.config.hidden;
                Ok((width, pool(&rows, &lengths, width, Pooling::Mean, true)))
            }
        }
    }
}

fn loader(checkpoint: Checkpoint, device: candle_core::Device, options: &LoadOptions) -> Result<Loader> {
    Ok(Loader {
        checkpoint,
        adapter: options.adapter.as_deref().map(Adapter::open).transpose()?,
        precision: options.precision,
        dequantize: options.dequantize,
        device,
    })
}

fn decoder(config: DecoderConfig, loader: &mut Loader) -> Result<ModelBody> {
    let hidden = config.hidden;
    let decoder = Decoder::load(config, loader)?;
    Ok(ModelBody::Decoder(Box::new(decoder), Head::load(hidden, loader)?))
}

fn is_encoder(folder: &Path) -> Result<bool> {
    let path = folder.join("config.json");
    let text = crate::small_file::read_json(&path)?;
    let json: Value = serde_json::from_slice(&text)
        .map_err(|error| Error::model(&path, format!("not valid JSON: {error}")))?;
    Ok(json["model_type"] == "bert")
}
