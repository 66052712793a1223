//! Which hosts `http_get` may reach.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use reqwest::Url;
use serde::{Deserialize, Serialize};

/// One line of a list of hosts.
///
/// | written | what it allows |
/// |---|---|
/// | `example.org` | this host, at the usual port of `http` and `https` |
/// | `example.org:8080`, `example.org:*` | this host at this port, at any port |
/// | `*.example.org` | every host below `example.org`, but not `example.org` itself |
/// | `*` | every host |
/// | `192.0.2.7`, `[2001:db8::7]:8080`, `localhost:3000` | this address; it may be one that is not public |
/// | `10.0.0.0/8` | the addresses of this network, at any port, also when a host that is allowed by its name leads there |
///
/// A host that is allowed by its name but leads to an address that is not public is refused unless the network of the
/// address is allowed, too: whoever owns a name decides where it leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostRule {
    host: Host,
    port: Port,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Any,
    Below(String),
    Named(String),
    Address(IpAddr),
    Network(IpNet),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    Usual,
    Any,
    Only(u16),
}

impl FromStr for HostRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "{text:?} is not a host: write `example.org`, `example.org:8080`, `*.example.org`, an address, or a network such as `10.0.0.0/8`"
            )
        };
        if text.contains("://") {
            return Err(format!(
                "{text:?} is the address of a page: write only its host, such as `example.org`"
            ));
        }
        if let Ok(network) = text.parse::<IpNet>() {
            let host = Host::Network(network.trunc());
            return Ok(Self { host, port: Port::Any });
        }
        // A bare IPv6 address contains colons.
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            let host = Host::Address(address.into());
            return Ok(Self {
                host,
                port: Port::Usual,
            });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, "*")) => (host, Port::Any),
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(invalid)?;
                (host, Port::Only(port))
            }
            _ => (text, Port::Usual),
        };
        let host = match host.strip_prefix("*.") {
            _ if host == "*" => Host::Any,
            Some(parent) => match parsed(parent).ok_or_else(invalid)? {
                Host::Named(name) => Host::Below(format!(".{name}")),
                _ => return Err(invalid()),
            },
            None => parsed(host).ok_or_else(invalid)?,
        };
        Ok(Self { host, port })
    }
}

/// A name or an address as URLs write it: what browsers treat as the same host is the same here.
fn parsed(host: &str) -> Option<Host> {
    if host.is_empty() || host.contains(['/', '@', '?', '#', '\\', '%', '*']) || host.contains(char::is_whitespace) {
        return None;
    }
    let url = Url::parse(&format!("http://{host}/")).ok()?;
    if url.port().is_some() {
        return None;
    }
    Some(match Target::of(&url)?.host {
        TargetHost::Address(address) => Host::Address(address),
        TargetHost::Name(name) => Host::Named(name),
    })
}

impl TryFrom<String> for HostRule {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HostRule> for String {
    fn from(rule: HostRule) -> Self {
        rule.to_string()
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Any => f.write_str("*")?,
            Host::Below(parent) => write!(f, "*{parent}")?,
            Host::Named(name) => f.write_str(name)?,
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            Host::Network(network) => return write!(f, "{network}"),
        }
        match self.port {
            Port::Usual => Ok(()),
            Port::Any => f.write_str(":*"),
            Port::Only(port) => write!(f, ":{port}"),
        }
    }
}

/// What a URL leads to.
struct Target {
    host: TargetHost,
    port: u16,
    is_usual_port: bool,
}

enum TargetHost {
    Address(IpAddr),
    Name(String),
}

impl Target {
    fn of(url: &Url) -> Option<Self> {
        let host = url.host_str()?;
        let unbracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match unbracketed.unwrap_or(host).parse() {
            Ok(address) => TargetHost::Address(as_it_is_reached(address)),
            Err(_) => TargetHost::Name(host.trim_end_matches('.').to_owned()).non_empty()?,
        };
        Some(Self {
            host,
            port: url.port_or_known_default()?,
            // The parser omits the default port of a scheme.
            is_usual_port: url.port().is_none(),
        })
    }
}

impl TargetHost {
    fn non_empty(self) -> Option<Self> {
        match &self {
            Self::Name(name) if name.is_empty() => None,
            _ => Some(self),
        }
    }
}

/// The hosts that calls of `http_get` may ask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostList {
    rules: Vec<HostRule>,
}

impl HostList {
    /// Returns the list of hosts that any of `rules` allows.
    #[must_use]
    pub fn new(rules: Vec<HostRule>) -> Self {
        Self { rules }
    }

    /// Every host whose addresses are public, at any port.
    #[must_use]
    pub fn everywhere() -> Self {
        Self::new(vec![HostRule {
            host: Host::Any,
            port: Port::Any,
        }])
    }

    /// Whether no host is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, as they were given.
    pub fn rules(&self) -> impl Iterator<Item = &HostRule> {
        self.rules.iter()
    }

    /// These hosts and `others`, each rule once.
    #[must_use]
    pub fn with(mut self, others: &Self) -> Self {
        for rule in &others.rules {
            if !self.rules.contains(rule) {
                self.rules.push(rule.clone());
            }
        }
        self
    }

    /// These hosts, and the exact host of `url` at its port: for a call that somebody saw and approved.
    pub(crate) fn with_host_of(self, url: &Url) -> Self {
        let Some(target) = Target::of(url) else {
            return self;
        };
        let host = match target.host {
            TargetHost::Address(address) => Host::Address(address),
            TargetHost::Name(name) => Host::Named(name),
        };
        self.with(&Self::new(vec![HostRule {
            host,
            port: Port::Only(target.port),
        }]))
    }

    /// Whether `url` may be requested, as far as its host tells.
    #[must_use]
    pub fn allows(&self, url: &Url) -> bool {
        Target::of(url).is_some_and(|target| self.rules.iter().any(|rule| rule.allows(&target)))
    }

    /// Whether the allowed name `name` may lead to `address`.
    pub(crate) fn allows_address(&self, name: &str, address: IpAddr) -> bool {
        let address = as_it_is_reached(address);
        is_public(address)
            || (name.eq_ignore_ascii_case("localhost") && address.is_loopback())
            || self
                .rules
                .iter()
                .any(|rule| matches!(rule.host, Host::Network(network) if network.contains(&address)))
    }
}

impl HostRule {
    fn allows(&self, target: &Target) -> bool {
        let is_port = match self.port {
            Port::Any => true,
            Port::Usual => target.is_usual_port,
            Port::Only(port) => target.port == port,
        };
        is_port
            && match (&self.host, &target.host) {
                // A host named `localhost` is no more public than the address that it stands for.
                (Host::Any, TargetHost::Name(name)) => name != "localhost" && !name.ends_with(".localhost"),
                (Host::Any, TargetHost::Address(address)) => is_public(*address),
                (Host::Below(parent), TargetHost::Name(name)) => name.ends_with(&**parent),
                (Host::Named(known), TargetHost::Name(name)) => known == name,
                (Host::Address(known), TargetHost::Address(address)) => known == address,
                (Host::Network(network), TargetHost::Address(address)) => network.contains(address),
                (Host::Below(_) | Host::Named(_), TargetHost::Address(_))
                | (Host::Address(_) | Host::Network(_), TargetHost::Name(_)) => false,
            }
    }
}

/// Converts an IPv4 address that is written as an IPv6 address to IPv4.
fn as_it_is_reached(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Whether `address` is a public address of the internet: it is in no range that IANA sets aside for machines,
/// networks, documentation or groups.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127, ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            | (224..=255, ..)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // 6to4 and NAT64 embed an IPv4 address.
        [0x2002, high, low, ..] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        // Reserved for protocols (Teredo among them), and two ranges for documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // All other addresses that were ever assigned.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rules: &[&str]) -> HostList {
        HostList::new(rules.iter().map(|rule| rule.parse().unwrap()).collect())
    }

    fn allows(rules: &[&str], url: &str) -> bool {
        list(rules).allows(&Url::parse(url).unwrap())
    }

    #[test]
    fn host_rule_allows_only_its_host_port_and_network() {
        for (rule, url, is_allowed) in [
            ("example.org", "https://example.org/a?b#c", true),
            ("example.org", "http://EXAMPLE.org./", true),
            ("Example.ORG.", "http://example.org/", true),
            ("example.org", "https://example.org:443/", true),
            ("example.org", "https://example.org:8443/", false),
            ("example.org", "https://www.example.org/", false),
            ("example.org", "https://example.org.evil.net/", false),
            ("example.org", "https://evilexample.org/", false),
            ("example.org:8080", "http://example.org:8080/", true),
            ("example.org:8080", "http://example.org/", false),
            ("example.org:443", "https://example.org/", true),
            ("example.org:*", "http://example.org:1/", true),
            ("*.example.org", "https://a.b.example.org/", true),
            ("*.example.org", "https://example.org/", false),
            ("*.example.org", "https://evilexample.org/", false),
            ("bücher.example", "https://xn--bcher-kva.example/", true),
            ("*", "https://example.org/", true),
            ("*", "https://example.org:8443/", false),
            ("*:*", "https://example.org:8443/", true),
            ("*", "http://93.184.215.14/", true),
            ("*:*", "http://127.0.0.1/", false),
            ("*:*", "http://localhost:80/", false),
            ("*:*", "http://a.localhost/", false),
            ("*:*", "http://[::1]/", false),
            ("localhost:3000", "http://localhost:3000/", true),
            ("127.0.0.1:3000", "http://127.0.0.1:3000/", true),
            ("127.0.0.1:3000", "http://localhost:3000/", false),
            ("127.0.0.1", "http://0x7f.1/", true),
            ("127.0.0.1", "http://[::ffff:127.0.0.1]/", true),
            ("::1", "http://[::1]/", true),
            ("[::1]:8080", "http://[::1]:8080/", true),
            ("[::1]", "http://[::2]/", false),
            ("10.0.0.0/8", "http://10.1.2.3:8080/", true),
            ("10.0.0.0/8", "http://11.1.2.3/", false),
            ("fd00::/8", "http://[fd12::1]/", true),
        ] {
            assert_eq!(allows(&[rule], url), is_allowed, "{rule} {url}");
        }
        assert!(!allows(&[], "https://example.org/"));
        assert!(allows(&["a.net", "example.org"], "https://example.org/"));
    }

    #[test]
    fn invalid_host_rule_error_shows_valid_examples() {
        for wrong in [
            "",
            "example.org/path",
            "user@example.org",
            "example.org:0",
            "example.org:99999",
            "example.org:http",
            "a b",
            "*.10.0.0.1",
            "a.*.org",
            "10.0.0.0/33",
            ":80",
            "*.",
            ".",
        ] {
            let error = wrong.parse::<HostRule>().unwrap_err();
            assert!(error.contains("example.org:8080"), "{wrong}: {error}");
        }
        let error = "https://example.org/".parse::<HostRule>().unwrap_err();
        assert!(error.contains("only its host"), "{error}");
    }

    #[test]
    fn host_rule_display_and_json_round_trip() {
        for rule in [
            "example.org",
            "example.org:8080",
            "*.example.org:*",
            "*",
            "*:*",
            "192.0.2.7:80",
            "[2001:db8::7]",
            "[2001:db8::7]:8080",
            "10.0.0.0/8",
            "fd00::/8",
        ] {
            let parsed: HostRule = rule.parse().unwrap();
            assert_eq!(parsed.to_string(), rule);
            let json = serde_json::to_string(&parsed).unwrap();
            assert_eq!(serde_json::from_str::<HostRule>(&json).unwrap(), parsed);
        }
        // What is beyond the prefix is not of the network.
        assert_eq!("10.1.2.3/8".parse::<HostRule>().unwrap().to_string(), "10.0.0.0/8");
    }

    #[test]
    fn host_name_reaches_private_addresses_only_in_allowed_networks() {
        let names = list(&["example.org", "127.0.0.1:80", "localhost:80"]);
        for (address, is_public) in [
            ("93.184.215.14", true),
            ("0.0.0.0", false),
            ("10.0.0.1", false),
            ("100.64.0.1", false),
            ("100.128.0.1", true),
            ("127.0.0.1", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.1.1", false),
            ("198.18.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:93.184.215.14", true),
            ("fe80::1", false),
            ("fc00::1", false),
            ("ff02::1", false),
            ("2001:db8::1", false),
            ("2001::1", false),
            ("2001:4860:4860::8888", true),
            ("2606:2800:220:1::1", true),
            ("2002:7f00:1::", false),
            ("2002:5db8:d70e::", true),
            ("64:ff9b::a00:1", false),
            ("64:ff9b::5db8:d70e", true),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(names.allows_address("example.org", address), is_public, "{address}");
        }
        let loopback = "127.0.0.1".parse().unwrap();
        assert!(names.allows_address("localhost", loopback));
        let within = list(&["example.org", "127.0.0.0/8"]);
        assert!(within.allows_address("example.org", loopback));
        assert!(!within.allows_address("example.org", "10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn approving_a_url_allows_only_its_host_and_port() {
        let url = Url::parse("http://127.0.0.1:8080/x").unwrap();
        let list = HostList::everywhere().with_host_of(&url);
        assert!(list.allows(&url));
        assert!(list.allows(&Url::parse("https://example.org/").unwrap()));
        assert!(!list.allows(&Url::parse("http://127.0.0.1:8081/").unwrap()));
        assert!(!list.allows_address("example.org", "127.0.0.1".parse().unwrap()));
    }
}
