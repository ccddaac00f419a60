//! Reward heads: what turns a hidden state into class probabilities or a value.
//!
//! - classes, two layers: `score.0` → ReLU → `score.2` (Qwen2.5-Math-PRM)
//! - classes, one layer: `score` or `classifier` (transformers' token and sequence classification)
//! - value: `v_head.summary` or `v_head` (TRL's value head, Skywork)

use candle_core::{DType, Tensor};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::linear::Linear;
use crate::weights::Loader;

/// What gives a reward model's verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadKind {
    /// The probabilities of two tokens of the language model.
    #[default]
    Tokens,
    /// A classification head with two classes.
    Classes,
    /// A head with one value (regression).
    Value,
}

impl HeadKind {
    /// What it is, for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Tokens => "language model head",
            Self::Classes => "class head",
            Self::Value => "value head",
        }
    }
}

/// A reward head.
pub enum Head {
    /// Logits of classes.
    Classes {
        /// Its name in the checkpoint.
        name: &'static str,
        /// A hidden layer before, with ReLU after it.
        inner: Option<Linear>,
        /// The last layer.
        last: Linear,
    },
    /// One number.
    Value {
        /// Its name in the checkpoint.
        name: &'static str,
        /// The only layer.
        last: Linear,
    },
}

impl Head {
    /// The head that a checkpoint has, if it has one.
    pub(crate) fn load(hidden: usize, loader: &mut Loader) -> Result<Option<Self>> {
        if let Some(classes) = loader.outputs("score.2")? {
            let inner = Some(loader.linear_as_stored("score.0", hidden, hidden)?);
            return Ok(Some(Self::Classes {
                name: "score",
                inner,
                last: loader.linear_as_stored("score.2", classes, hidden)?,
            }));
        }
        for name in ["score", "classifier"] {
            if let Some(classes) = loader.outputs(name)? {
                return Ok(Some(Self::Classes {
                    name,
                    inner: None,
                    last: loader.linear_as_stored(name, classes, hidden)?,
                }));
            }
        }
        for name in ["v_head.summary", "v_head"] {
            if loader.outputs(name)?.is_some() {
                return Ok(Some(Self::Value { name, last: loader.linear_as_stored(name, 1, hidden)? }));
            }
        }
        Ok(None)
    }

    /// Class logits or values `[rows, outputs]` in f32.
    pub fn forward(&self, hidden: &Tensor) -> Result<Tensor> {
        let raw = match self {
            Self::Classes { inner, last, .. } => match inner {
                Some(inner) => last.forward(&inner.forward(hidden)?.relu()?)?,
                None => last.forward(hidden)?,
            },
            Self::Value { last, .. } => last.forward(hidden)?,
        };
        Ok(raw.to_dtype(DType::F32)?)
    }

    /// How many classes or values it gives, where that is known.
    pub(crate) fn outputs(&self) -> Option<usize> {
        match self {
            Self::Classes { last, .. } | Self::Value { last, .. } => last.weight.outputs(),
        }
    }

    /// Its projections with their names in a checkpoint, from the hidden state on.
    pub fn projections(&self) -> Vec<(String, &Linear)> {
        match self {
            Self::Classes { name, inner: Some(inner), last } => {
                vec![(format!("{name}.0"), inner), (format!("{name}.2"), last)]
            }
            Self::Classes { name, inner: None, last } | Self::Value { name, last } => {
                vec![((*name).to_owned(), last)]
            }
        }
    }

    /// The same projections, to be changed.
    pub fn projections_mut(&mut self) -> Vec<&mut Linear> {
        match self {
            Self::Classes { inner, last, .. } => inner.iter_mut().chain([last]).collect(),
            Self::Value { last, .. } => vec![last],
        }
    }

    /// Its kind.
    pub fn kind(&self) -> HeadKind {
        match self {
            Self::Classes { .. } => HeadKind::Classes,
            Self::Value { .. } => HeadKind::Value,
        }
    }

    /// What it is, for messages.
    pub fn describe(&self) -> &'static str {
        self.kind().describe()
    }
}
