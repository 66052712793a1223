//! The protocols of providers: the URL and the headers of a request.

use crate::address::{ModelAddress, Provider};
use crate::secret::{ModelKeys, Secret};

/// The protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
    /// Gemini's `generateContent`.
    Gemini,
}

/// The version of the Messages API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The location of a model, and the key for it.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) wire: Wire,
    /// The provider's name of the model.
    pub(super) name: String,
    /// The URL for requests.
    pub(super) url: String,
    /// Whether that is the provider itself, which gets more information than other servers with the same protocol.
    pub(super) is_official: bool,
    pub(super) key: Option<Secret>,
}

impl Wire {
    fn of(provider: Provider) -> Option<Self> {
        match provider {
            // Ollama's own protocol drops schemas and the choice of tools; its Chat Completions do not.
            Provider::OpenAi | Provider::Ollama => Some(Self::Chat),
            Provider::OpenAiResponses => Some(Self::Responses),
            Provider::Anthropic => Some(Self::Messages),
            Provider::Gemini => Some(Self::Gemini),
            Provider::Scripted | Provider::Agent => None,
        }
    }

    /// How a key is sent: the name of the header, and the prefix of the value.
    fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Self::Chat | Self::Responses => ("authorization", "Bearer "),
            Self::Messages => ("x-api-key", ""),
            Self::Gemini => ("x-goog-api-key", ""),
        }
    }
}

impl Target {
    /// The target of `address`; `None` if it does not belong to a provider.
    pub(super) fn of(address: &ModelAddress, keys: &ModelKeys) -> Option<Self> {
        let wire = Wire::of(address.provider)?;
        let base = base_url(address)?;
        let name = &address.name;
        let url = match wire {
            Wire::Chat => format!("{base}chat/completions"),
            Wire::Responses => format!("{base}responses"),
            Wire::Messages => format!("{base}messages"),
            Wire::Gemini => format!("{base}models/{name}:streamGenerateContent?alt=sse"),
        };
        let of_provider = match address.provider {
            Provider::Anthropic => &keys.anthropic,
            Provider::OpenAi | Provider::OpenAiResponses => &keys.openai,
            Provider::Gemini => &keys.gemini,
            Provider::Ollama | Provider::Scripted | Provider::Agent => &None,
        };
        let key = match &address.base_url {
            None => of_provider.clone(),
            Some(base) => keys
                .own
                .clone()
                .or_else(|| of_provider.clone().filter(|_| is_private(base))),
        };
        Some(Self {
            wire,
            name: name.clone(),
            url,
            is_official: address.base_url.is_none() && address.provider != Provider::Ollama,
            key: key.filter(|key| !key.reveal().is_empty()),
        })
    }

    /// The headers of a request. Keys occur only here.
    pub(super) fn headers(&self, idempotency_key: &str) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        if let Some(key) = &self.key {
            let (name, before) = self.wire.key_header();
            headers.push((name.to_owned(), format!("{before}{}", key.reveal())));
        }
        if self.wire == Wire::Messages {
            headers.push(("anthropic-version".to_owned(), ANTHROPIC_VERSION.to_owned()));
        }
        let is_sendable = !idempotency_key.is_empty() && idempotency_key.bytes().all(|b| b.is_ascii_graphic());
        if is_sendable && self.wire != Wire::Gemini {
            headers.push(("idempotency-key".to_owned(), idempotency_key.to_owned()));
        }
        headers
    }
}

/// The URL prefix before the endpoint, ending with `/`.
fn base_url(address: &ModelAddress) -> Option<String> {
    let own = match (&address.base_url, address.provider) {
        (Some(url), Provider::Ollama) if path_of(url).is_empty() => format!("{}/v1", url.trim_end_matches('/')),
        (Some(url), _) => url.clone(),
        (None, Provider::Anthropic) => "https://api.anthropic.com/v1".to_owned(),
        (None, Provider::OpenAi | Provider::OpenAiResponses) => "https://api.openai.com/v1".to_owned(),
        (None, Provider::Gemini) => "https://generativelanguage.googleapis.com/v1beta".to_owned(),
        (None, Provider::Ollama) => "http://localhost:11434/v1".to_owned(),
        (None, Provider::Scripted | Provider::Agent) => return None,
    };
    Some(format!("{}/", own.trim_end_matches('/')))
}

fn host_and_path(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split_once('/').unwrap_or((rest, ""))
}

fn path_of(url: &str) -> &str {
    host_and_path(url).1
}

/// Whether nobody in between can read what is sent to `url`: it is encrypted, or does not leave this machine.
fn is_private(url: &str) -> bool {
    let host = host_and_path(url).0;
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_here = name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    url.starts_with("https://") || is_here
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(address: &str) -> Target {
        let keys = ModelKeys {
            anthropic: Some(Secret::new("a")),
            openai: Some(Secret::new("o")),
            gemini: Some(Secret::new("g")),
            own: None,
        };
        Target::of(&address.parse().unwrap(), &keys).unwrap()
    }

    #[test]
    fn provider_addresses_map_to_their_endpoint_urls() {
        let check = |address: &str, url: &str| assert_eq!(target(address).url, url, "{address}");
        check("openai:m", "https://api.openai.com/v1/chat/completions");
        check("openai-responses:m", "https://api.openai.com/v1/responses");
        check("anthropic:m", "https://api.anthropic.com/v1/messages");
        check(
            "gemini:m",
            "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
        );
        check("ollama:m", "http://localhost:11434/v1/chat/completions");
        check("ollama+http://h:1:m", "http://h:1/v1/chat/completions");
        check("ollama+http://h/own:m", "http://h/own/chat/completions");
        check("openai+http://h/v1/:m", "http://h/v1/chat/completions");
        check("openai+http://h:m", "http://h/chat/completions");
    }

    #[test]
    fn provider_key_is_not_sent_over_plain_http_to_remote_hosts() {
        let has_key = |address: &str| target(address).key.is_some();
        assert!(has_key("openai:m") && has_key("openai+https://gateway/v1:m"));
        assert!(has_key("openai+http://127.0.0.1:8080/v1:m") && has_key("openai+http://localhost/v1:m"));
        assert!(has_key("openai+http://[::1]:8080/v1:m"));
        assert!(!has_key("openai+http://gateway/v1:m") && !has_key("openai+http://localhost.example/v1:m"));
        assert!(!has_key("ollama:m"));
        let own = ModelKeys {
            own: Some(Secret::new("own")),
            ..ModelKeys::default()
        };
        let address = "openai+http://gateway/v1:m".parse().unwrap();
        assert!(
            Target::of(&address, &own).unwrap().key.is_some(),
            "it was given for this"
        );
    }
}
