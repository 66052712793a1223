//! The prices of models.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::address::{ModelAddress, Provider};

/// The price of a model, in millionths of a US dollar for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens read.
    #[serde(rename = "in")]
    pub input: u64,
    /// Tokens read that come from the provider's cache.
    pub cached: u64,
    /// Tokens read that are written to the cache; the same as `input` if absent.
    pub written: Option<u64>,
    /// Tokens written, including reasoning.
    #[serde(rename = "out")]
    pub output: u64,
    /// The number of tokens read up to which the price is valid; beyond it the price is unknown.
    pub up_to: Option<u64>,
}

/// Prices of models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prices {
    /// Prices by provider and name of the model.
    named: BTreeMap<(String, String), Price>,
    /// Prices by the full address.
    whole: BTreeMap<String, Price>,
}

/// The error for a text without valid prices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the prices cannot be read: {message}")]
pub struct PricesError {
    /// What is wrong.
    pub message: String,
    /// The byte offset in the text, if known.
    pub at: Option<usize>,
}

/// The file format: a table for each provider and, for models at custom addresses, one with full addresses.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Written {
    anthropic: BTreeMap<String, Price>,
    openai: BTreeMap<String, Price>,
    gemini: BTreeMap<String, Price>,
    ollama: BTreeMap<String, Price>,
    addresses: BTreeMap<String, Price>,
}

impl Prices {
    /// The prices that come with the program.
    #[must_use]
    pub fn built_in() -> Self {
        Self::parse(include_str!("prices.toml")).unwrap_or_default()
    }

    /// Reads prices in the form of `prices.toml`.
    ///
    /// # Errors
    ///
    /// What is wrong, and where.
    pub fn parse(text: &str) -> Result<Self, PricesError> {
        let written: Written = toml::from_str(text).map_err(|error| PricesError {
            message: error.message().to_owned(),
            at: error.span().map(|span| span.start),
        })?;
        let mut prices = Self {
            whole: written.addresses,
            ..Self::default()
        };
        for (provider, table) in [
            ("anthropic", written.anthropic),
            ("openai", written.openai),
            ("gemini", written.gemini),
            ("ollama", written.ollama),
        ] {
            let entries = table
                .into_iter()
                .map(|(name, price)| ((provider.to_owned(), name), price));
            prices.named.extend(entries);
        }
        Ok(prices)
    }

    /// These prices, with those of `other` taking precedence.
    #[must_use]
    pub fn overridden_by(mut self, other: Self) -> Self {
        self.named.extend(other.named);
        self.whole.extend(other.whole);
        self
    }

    /// The price of the model at `address`: by its full address or, for a model at its provider's own address, by its
    /// name with or without the date of a snapshot. `None` if unknown.
    #[must_use]
    pub fn price(&self, address: &ModelAddress) -> Option<&Price> {
        if let Some(price) = self.whole.get(&address.to_string()) {
            return Some(price);
        }
        if address.base_url.is_some() {
            return None;
        }
        let provider = match address.provider {
            Provider::OpenAi | Provider::OpenAiResponses => Provider::OpenAi,
            Provider::Anthropic | Provider::Gemini | Provider::Ollama => address.provider,
            Provider::Scripted | Provider::Agent => return None,
        };
        let price_of = |name: &str| self.named.get(&(provider.as_str().to_owned(), name.to_owned()));
        price_of(&address.name).or_else(|| price_of(without_date(&address.name)?))
    }
}

/// The name without a suffix such as `-20260501` or `-2026-05-01`.
fn without_date(name: &str) -> Option<&str> {
    [9, 11].into_iter().find_map(|len| {
        let (start, date) = name.split_at_checked(name.len().checked_sub(len)?)?;
        let digits = date.bytes().filter(u8::is_ascii_digit).count();
        let is_date = date.starts_with("-20") && digits == 8 && date.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        is_date.then_some(start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price_of(prices: &Prices, address: &str) -> Option<u64> {
        prices.price(&address.parse().unwrap()).map(|price| price.input)
    }

    #[test]
    fn unknown_price_is_none_instead_of_zero_e9_10() {
        let prices = Prices::built_in();
        for address in [
            "openai:nobody-knows",
            "ollama:qwen3",
            "openai+http://h/v1:gpt-5",
            "scripted:x",
        ] {
            assert_eq!(price_of(&prices, address), None, "{address}");
        }
    }

    #[test]
    fn price_file_overrides_built_in_prices() {
        let prices = Prices::built_in();
        assert!(prices.named.len() > 20);
        assert!(
            prices
                .named
                .values()
                .all(|price| price.input > 0 && price.cached < price.input && price.output > price.input)
        );
        assert_eq!(price_of(&prices, "anthropic:claude-sonnet-4-5"), Some(3_000_000));
        assert_eq!(
            price_of(&prices, "anthropic:claude-sonnet-4-5-20250929"),
            Some(3_000_000)
        );
        assert_eq!(price_of(&prices, "openai-responses:gpt-5-2025-08-07"), Some(1_250_000));
        let own = "[openai]\ngpt-5 = { in = 7, cached = 1, out = 9 }\n\
                   [addresses]\n\"ollama:qwen3\" = { in = 0, cached = 0, out = 0 }\n\
                   \"openai+https://gateway/v1:x\" = { in = 5, cached = 5, out = 5 }";
        let prices = prices.overridden_by(Prices::parse(own).unwrap());
        assert_eq!(price_of(&prices, "openai:gpt-5"), Some(7));
        assert_eq!(price_of(&prices, "ollama:qwen3"), Some(0), "said, and so known");
        assert_eq!(price_of(&prices, "openai+https://gateway/v1:x"), Some(5));
        assert_eq!(price_of(&prices, "anthropic:claude-haiku-4-5"), Some(1_000_000));
        let error = Prices::parse("[openai]\nx = { in = 1 }").unwrap_err().to_string();
        assert!(error.contains("cached"), "{error}");
    }
}
