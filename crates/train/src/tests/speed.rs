//! How fast training is, of LoRA or of all weights: forward, backward and AdamW over random tokens, every one of them predicted.
//!
//! `GRADUS_TRAIN_SPEED` is `MODEL [--device cuda] [--precision bf16] [--sequences 4] [--length 1024] [--steps 8]
//! [--tuning all] [--rank 32] [--targets q_proj,v_proj] [--keep GIB]`. Prints one JSON line, like its peer `benches/peers/train.py`;
//! `make bench-train` runs both.

use std::error::Error;
use std::time::Instant;

use gradus_engine::batch::{Batch, Forest};
use gradus_engine::{Device, LoadOptions, Model, Precision, models};

use crate::lora::LoraConfig;
use crate::losses::negative_log_likelihood;
use crate::optimizer::AdamW;
use crate::parameters::Gradients;
use crate::readout::{scatter, select};
use crate::trainable::{TrainableModel, TrainableOptions, Tuning};

/// Steps before the clock starts.
const WARM_UP: usize = 2;

/// The words of `GRADUS_TRAIN_SPEED`.
struct Options(Vec<String>);

impl Options {
    fn text(&self, name: &str, default: &str) -> String {
        let at = self.0.iter().position(|word| word == name);
        at.and_then(|at| self.0.get(at + 1)).cloned().unwrap_or_else(|| default.to_owned())
    }

    fn number(&self, name: &str, default: usize) -> usize {
        let text = self.text(name, &default.to_string());
        text.parse().unwrap_or_else(|_| panic!("{name} is {text}: expected a number"))
    }
}

#[test]
#[ignore = "a measurement: make bench-train"]
#[expect(clippy::print_stdout, reason = "what it measures is printed")]
fn of_training() -> Result<(), Box<dyn Error>> {
    let words = std::env::var("GRADUS_TRAIN_SPEED").map_err(|_| "GRADUS_TRAIN_SPEED names no model")?;
    let options = Options(words.split_whitespace().map(str::to_owned).collect());
    let name = options.0.first().ok_or("GRADUS_TRAIN_SPEED names no model")?;
    let on_gpu = options.text("--device", "cpu") == "cuda";
    let precision: Precision = options.text("--precision", if on_gpu { "bf16" } else { "bf16x3" }).parse()?;
    let (sequences, length, steps) =
        (options.number("--sequences", 4), options.number("--length", 1024), options.number("--steps", 8));
    let device = if on_gpu { Device::Cuda(0) } else { Device::Cpu };
    let load = LoadOptions { device, precision: Some(precision), dequantize: Some(true), adapter: None };
    let model = Model::load(&models::resolve(name)?, &load)?;
    let vocabulary = model.decoder()?.config.vocabulary as u64;
    let targets = options.text("--targets", "q_proj,v_proj").split(',').map(str::to_owned).collect();
    let lora = LoraConfig {
        rank: options.number("--rank", 32),
        alpha: 64.0,
        dropout: 0.0,
        targets,
        ..LoraConfig::default()
    };
    let how = options.text("--tuning", "lora");
    let tuning = if how == "lora" { Tuning::Lora(lora) } else { Tuning::Full };
    let activation_bytes = options.number("--keep", if on_gpu { 16 } else { 4 }) << 30;
    let trained = TrainableOptions { tuning, precision, quantized: false, activation_bytes, seed: 0 };
    let mut trainable = TrainableModel::new(model, trained)?;
    let adam = AdamW { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 };
    let mut seconds = Vec::new();
    let mut loss = 0.0;
    for step in 0..steps + WARM_UP {
        let mut batch = Batch::default();
        let (mut rows, mut next) = (Vec::new(), Vec::new());
        for sequence in 0..sequences {
            let token = |at: usize| ((at * 7919 + sequence * 104_729 + step * 13) as u64 % vocabulary) as u32;
            let tokens: Vec<u32> = (0..length).map(token).collect();
            let start = batch.add(&Forest::sequence(tokens.clone()))[0];
            rows.extend(start..start + length - 1);
            next.extend(&tokens[1..]);
        }
        let began = Instant::now();
        let mut gradients = Gradients::new(&trainable.parameters);
        let tape = trainable.forward(&batch, Some(step as u64))?;
        let hidden = select(&tape.hidden, &rows)?;
        let logprobs = trainable.token_logprobs(&hidden, &next, true)?;
        let mean = negative_log_likelihood(&logprobs.values, &vec![1.0; next.len()]);
        loss = mean.value;
        let d_rows = trainable.token_logprobs_backward(&hidden, logprobs, &mean.gradient, &mut gradients)?;
        let d_hidden = scatter(&tape.hidden, &rows, &d_rows)?;
        trainable.backward(tape, &d_hidden, &mut gradients)?;
        // The norm is a number on the host, so everything before it has been computed.
        gradients.clip(1.0)?;
        trainable.update(&gradients, 1e-4, step + 1, &adam)?;
        trainable.device()?.synchronize()?;
        if step >= WARM_UP {
            seconds.push(began.elapsed().as_secs_f64());
        }
    }
    seconds.sort_by(f64::total_cmp);
    let speed = |seconds: f64| (sequences * length) as f64 / seconds;
    println!(
        "{{\"peer\": \"gradus\", \"task\": \"train {sequences}x{length}\", \"tuning\": \"{how}\", \"precision\": \"{precision}\", \"value\": {:.1}, \"best\": {:.1}, \"unit\": \"tokens/s\", \"loss\": {loss:.4}}}",
        speed(seconds[seconds.len() / 2]),
        speed(seconds[0]),
        precision = precision.name(),
    );
    Ok(())
}
