//! What tokens cost, from a table that the user writes:
//!
//! ```toml
//! currency = "USD"
//! [models."Qwen/Qwen2.5-7B-Instruct"]
//! prompt = 0.10        # per million tokens
//! completion = 0.30
//! ```
//!
//! A model that is not in the table has an unknown cost, not none.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The price of a million tokens, in the table's currency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// A million tokens of prompts.
    pub prompt: f64,
    /// A million tokens of samples.
    pub completion: f64,
}

impl Price {
    /// What these tokens cost.
    ///
    /// ```
    /// use gradus_llm::Price;
    /// let price = Price { prompt: 0.1, completion: 0.3 };
    /// assert!((price.cost(2_000_000, 1_000_000) - 0.5).abs() < 1e-12);
    /// ```
    pub fn cost(&self, prompt_tokens: u64, completion_tokens: u64) -> f64 {
        (prompt_tokens as f64 * self.prompt + completion_tokens as f64 * self.completion) / 1e6
    }
}

/// Prices by model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// What the prices are in, such as `USD`.
    pub currency: String,
    /// Models by the name that endpoints call them.
    #[serde(default)]
    pub models: BTreeMap<String, Price>,
}

impl Prices {
    /// Reads the table at `path`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let refuse = |reason: String| Error::Prices { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        let prices: Self = toml::from_str(&text).map_err(|error| refuse(error.to_string()))?;
        for (model, price) in &prices.models {
            for (field, value) in [("prompt", price.prompt), ("completion", price.completion)] {
                if !(value.is_finite() && value >= 0.0) {
                    let found = format!("`{field}` of the model `{model}` is {value}");
                    return Err(refuse(format!("{found}; give what a million tokens cost, 0 or more")));
                }
            }
        }
        Ok(prices)
    }

    /// The price of `model`'s tokens; nothing where the table does not have it.
    pub fn of(&self, model: &str) -> Option<Price> {
        self.models.get(model).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Prices> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Prices::read(file.path())
    }

    #[test]
    fn a_model_that_is_not_in_the_table_has_no_price() {
        let prices =
            read("currency = 'EUR'\n[models.'a/b']\nprompt = 1\ncompletion = 2.5\n[models.free]\nprompt = 0\ncompletion = 0")
                .unwrap();
        assert_eq!(prices.currency, "EUR");
        assert_eq!(prices.of("a/b"), Some(Price { prompt: 1.0, completion: 2.5 }));
        assert_eq!(prices.of("a/b").unwrap().cost(1_000_000, 2_000_000), 6.0);
        assert_eq!(prices.of("free").unwrap().cost(7, 7), 0.0);
        assert_eq!(prices.of("b"), None);
    }

    #[test]
    fn tables_that_cannot_be_meant_are_refused() {
        for (text, words) in [
            ("", "missing field `currency`"),
            ("currency = 'USD'\n[models.x]\nprompt = -1\ncompletion = 0", "`prompt` of the model `x` is -1"),
            (
                "currency = 'USD'\n[models.x]\nprompt = 0\ncompletion = nan",
                "`completion` of the model `x` is NaN",
            ),
            (
                "currency = 'USD'\n[models.x]\nprompt = inf\ncompletion = 0",
                "`prompt` of the model `x` is inf",
            ),
            ("currency = 'USD'\n[models.x]\nprompt = 1", "missing field `completion`"),
            (
                "currency = 'USD'\n[models.x]\nprompt = 1\ncompletion = 1\ncached = 1",
                "unknown field `cached`",
            ),
            ("currency = 'USD'\nunit = 1000", "unknown field `unit`"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let error = Prices::read("no/such/table.toml").unwrap_err().to_string();
        assert!(error.contains("no/such/table.toml"), "{error}");
    }
}
