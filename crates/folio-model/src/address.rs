//! The addresses of models.

use std::fmt;
use std::str::FromStr;

/// The provider of a model, which decides the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// Anthropic, by its Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API, or anything compatible with it.
    OpenAi,
    /// OpenAI's Responses API.
    OpenAiResponses,
    /// Google's Gemini API.
    Gemini,
    /// A local Ollama.
    Ollama,
    /// No provider: a script file contains the answers.
    Scripted,
    /// An agent program, by the name that the settings give it.
    Agent,
}

impl Provider {
    const ALL: [(&'static str, Self); 7] = [
        ("anthropic", Self::Anthropic),
        ("openai", Self::OpenAi),
        ("openai-responses", Self::OpenAiResponses),
        ("gemini", Self::Gemini),
        ("ollama", Self::Ollama),
        ("scripted", Self::Scripted),
        ("agent", Self::Agent),
    ];

    /// The name in an address.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, provider)| *provider == self)
            .map_or("", |(name, _)| name)
    }
}

/// The address of a model: `anthropic:NAME`, `openai:NAME`, `openai-responses:NAME`, `gemini:NAME` or `ollama:NAME`;
/// one with a URL of its own, such as `openai+http://HOST/v1:NAME`; `scripted:PATH`, a file with a script; or
/// `agent:NAME`, an agent that the settings name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelAddress {
    /// The provider.
    pub provider: Provider,
    /// The base URL; `None` for the provider's own.
    pub base_url: Option<String>,
    /// The name of the model, or the path of a script.
    pub name: String,
}

/// The error for a text that is not the address of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} does not name a model: {reason}; write PROVIDER:NAME or PROVIDER+http://HOST/PATH:NAME with a provider of anthropic, openai, openai-responses, gemini, ollama; or scripted:FILE, or agent:NAME"
)]
pub struct AddressError {
    given: String,
    reason: &'static str,
}

/// The parts of a model's address, whether or not there is such a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelParts<'a> {
    /// The provider.
    pub provider: &'a str,
    /// The base URL, if the address contains one.
    pub base_url: Option<&'a str>,
    /// The name of the model; `None` if it is missing.
    pub name: Option<&'a str>,
}

impl<'a> ModelParts<'a> {
    /// Splits `text`. After a URL, the name begins at the first `:` that does not belong to a port: names may contain
    /// colons, too.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        let end = text.find([':', '+']).unwrap_or(text.len());
        let (provider, rest) = text.split_at(end);
        let (base_url, name) = match rest.strip_prefix('+') {
            Some(address) => {
                let end = end_of_url(address);
                (Some(&address[..end]), address[end..].strip_prefix(':'))
            }
            None => (None, rest.strip_prefix(':')),
        };
        Self {
            provider,
            base_url,
            name,
        }
    }
}

/// The end of the URL at the beginning of `address`.
fn end_of_url(address: &str) -> usize {
    let Some(host_at) = address.find("://").map(|at| at + "://".len()) else {
        return address.len();
    };
    let rest = &address[host_at..];
    let host = match rest.strip_prefix('[').and_then(|inside| inside.find(']')) {
        Some(end) => end + 2,
        None => rest.find([':', '/']).unwrap_or(rest.len()),
    };
    let port = rest[host..].strip_prefix(':').map_or(0, |after| {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let ends = after[digits..].is_empty() || after[digits..].starts_with([':', '/']);
        if digits > 0 && ends { digits + 1 } else { 0 }
    });
    let path = host + port;
    let authority = rest.find('/').unwrap_or(rest.len());
    // No part of `NAME:PASSWORD@HOST` may be taken for the name of a model and shown.
    let path = match rest[path..authority.max(path)].rfind('@') {
        Some(at) if port == 0 => path + at + 1,
        _ => path,
    };
    rest[path..].find(':').map_or(address.len(), |at| host_at + path + at)
}

impl FromStr for ModelAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = |reason| AddressError {
            given: text.to_owned(),
            reason,
        };
        let parts = ModelParts::of(text);
        let provider = Provider::ALL
            .iter()
            .find_map(|(name, known)| (*name == parts.provider).then_some(*known));
        let provider = match provider {
            Some(provider) => provider,
            None if !text.contains([':', '+']) => return Err(error("it has no ':'")),
            None => return Err(error("the provider is not known")),
        };
        if provider == Provider::Scripted {
            return match text.strip_prefix("scripted:") {
                Some(path) if !path.is_empty() && !path.chars().any(char::is_control) => Ok(Self {
                    provider,
                    base_url: None,
                    name: path.to_owned(),
                }),
                _ => Err(error("the path of the script after the ':' is missing")),
            };
        }
        if let Some(url) = parts.base_url {
            if provider == Provider::Agent {
                return Err(error("an agent has no URL in its address"));
            }
            let (scheme, host) = url
                .split_once("://")
                .ok_or_else(|| error("the address has no http:// or https://"))?;
            if !matches!(scheme, "http" | "https") || host.is_empty() {
                return Err(error("the address is not http:// or https:// and a host"));
            }
            if host.split('/').next().is_some_and(|host| host.contains('@')) {
                return Err(AddressError {
                    given: format!("{}+{scheme}://…@…", provider.as_str()),
                    reason: "the address contains a user name or password; give the key separately",
                });
            }
        }
        let name = parts.name.ok_or_else(|| error("there is no ':' before the name"))?;
        let base_url = parts.base_url.map(str::to_owned);
        let is_valid = !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || c.is_control());
        if !is_valid {
            return Err(error("the name is empty or has white space"));
        }
        Ok(Self {
            provider,
            base_url,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for ModelAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.base_url {
            None => write!(f, "{}:{}", self.provider.as_str(), self.name),
            Some(url) => write!(f, "{}+{url}:{}", self.provider.as_str(), self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, provider: Provider, base_url: Option<&str>, name: &str) {
        let address: ModelAddress = text.parse().unwrap_or_else(|error| panic!("{error}"));
        let wanted = ModelAddress {
            provider,
            base_url: base_url.map(str::to_owned),
            name: name.to_owned(),
        };
        assert_eq!(address, wanted);
        assert_eq!(address.to_string(), text);
    }

    #[test]
    fn model_address_parses_provider_url_and_name() {
        check("anthropic:claude-x", Provider::Anthropic, None, "claude-x");
        check("ollama:qwen3:8b", Provider::Ollama, None, "qwen3:8b");
        check(
            "openai+http://127.0.0.1:8080/v1:local",
            Provider::OpenAi,
            Some("http://127.0.0.1:8080/v1"),
            "local",
        );
        check(
            "scripted:my tests/a:b.json",
            Provider::Scripted,
            None,
            "my tests/a:b.json",
        );
        check("openai+https://host:m", Provider::OpenAi, Some("https://host"), "m");
        check("agent:mender", Provider::Agent, None, "mender");
        for (url, name) in [
            ("http://127.0.0.1:7962/v1", "llama3:8b"),
            ("http://host:11434", "llama3:8b"),
            ("http://host:11434", "hf.co/org/model:Q4_K_M"),
            ("https://host", "70b:latest"),
            ("http://[::1]:11434", "llama3:8b"),
            ("http://[::1]/v1", "m"),
            ("http://host:8080", "m@2024"),
        ] {
            let text = format!("ollama+{url}:{name}");
            check(&text, Provider::Ollama, Some(url), name);
        }
    }

    #[test]
    fn model_address_with_credentials_is_refused_without_echoing_them() {
        for place in [
            "me:hunter2@h/v1:m",
            "me:hunter2@h",
            "me:hunter2@h:8080:m",
            "hunter2@h:m",
        ] {
            let error = format!("openai+http://{place}").parse::<ModelAddress>().unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn malformed_model_addresses_are_refused() {
        for text in [
            "",
            "claude",
            "nobody:x",
            "openai:",
            "openai+ftp://h:x",
            "openai+http://h:8080",
            "openai:a b",
            "openai+http://",
            "scripted:",
            "scripted+http://h/v1:x",
            "agent:",
            "agent+http://h/v1:x",
        ] {
            assert!(text.parse::<ModelAddress>().is_err(), "{text:?} was taken");
        }
    }
}
