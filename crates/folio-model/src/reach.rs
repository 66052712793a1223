//! Why a host cannot be reached, in familiar words.

use std::error::Error;
use std::io;

use folio_memory::causes::causes;

/// Why there is no connection to `url`, and what to check. The message contains only the host and port of the URL, and
/// nothing that could be a password.
#[must_use]
pub fn unreached(error: &(dyn Error + 'static), url: &str) -> String {
    let at = host_of(url);
    match find_cause(error) {
        Some(Cause::Name) => format!("there is no machine that is called {at}; is the address right?"),
        Some(Cause::Certificate) => {
            format!("the certificate of {at} is not trusted, or is another machine's; is the address right?")
        }
        Some(Cause::Tls) => format!("{at} does not speak TLS; should the address begin with http:// and not https://?"),
        Some(Cause::Refused) => format!("nothing listens at {at}; is the address right, and is it running?"),
        None => format!("there is no connection to {at}; is the address right, and is it running?"),
    }
}

enum Cause {
    Name,
    Certificate,
    Tls,
    Refused,
}

fn find_cause(error: &(dyn Error + 'static)) -> Option<Cause> {
    causes(error).find_map(|cause| {
        match cause.downcast_ref::<rustls::Error>() {
            Some(rustls::Error::InvalidCertificate(_)) => return Some(Cause::Certificate),
            Some(_) => return Some(Cause::Tls),
            None => {}
        }
        // This error has no accessible type.
        if cause.to_string() == "dns error" {
            return Some(Cause::Name);
        }
        let io = cause.downcast_ref::<io::Error>();
        io.filter(|io| io.kind() == io::ErrorKind::ConnectionRefused)
            .map(|_| Cause::Refused)
    })
}

/// The host and port in a URL, without user name and password.
pub(crate) fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    host.rsplit_once('@').map_or(host, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use folio_memory::causes::innermost;

    use super::*;

    #[test]
    fn innermost_finds_the_root_cause_of_nested_io_errors() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = io::Error::other(io::Error::other(refused));
        let found = innermost(&error).downcast_ref::<io::Error>().map(io::Error::kind);
        assert_eq!(found, Some(io::ErrorKind::ConnectionRefused));
    }

    #[test]
    fn unreached_error_names_the_cause_without_credentials() {
        let url = "https://me:secret@host:1/v1?key=x";
        let not_tls = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        let stranger = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        for (error, said) in [
            (
                io::Error::from(io::ErrorKind::ConnectionRefused),
                "nothing listens at host:1; ",
            ),
            (io::Error::other(not_tls), "host:1 does not speak TLS; "),
            (io::Error::other(stranger), "the certificate of host:1 is not trusted"),
            (
                io::Error::other("dns error"),
                "there is no machine that is called host:1; ",
            ),
            (io::Error::other("something"), "there is no connection to host:1; "),
        ] {
            let text = unreached(&error, url);
            assert!(text.starts_with(said), "{text}");
            assert!(!text.contains("secret") && !text.contains("key=x"), "{text}");
        }
    }
}
