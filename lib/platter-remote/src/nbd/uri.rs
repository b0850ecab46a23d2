//! URIs of NBD exports.
//!
//! Source: `doc/uri.md` of the NBD project. `nbd://HOST[:PORT]/NAME` and `nbd+unix:///NAME?socket=PATH`; `nbds` and
//! `nbds+unix` for TLS, with the arguments `tls-certificates`, `tls-hostname` and `tls-verify-peer`.

mod security;

pub use security::Security;

use super::wire::{MAX_STRING_BYTES, PORT};
use std::fmt;
use std::path::{Path, PathBuf};

/// The schemes, each with whether it means TLS and whether it means a Unix socket.
const SCHEMES: [(&str, bool, bool); 4] =
    [("nbd", false, false), ("nbds", true, false), ("nbd+unix", false, true), ("nbds+unix", true, true)];

/// Whether a word is a URI of NBD rather than a path.
pub fn is_uri(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once("://") else { return false };
    SCHEMES.iter().any(|(name, ..)| *name == scheme)
}

/// The place of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host, by name or number, and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

/// A URI of an export.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Uri {
    /// Where the server is.
    pub address: Address,
    /// The export's name; empty: the server's default.
    pub export: String,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// How it is encrypted.
    pub security: Security,
}

impl Uri {
    /// The URI of an export at a Unix socket.
    pub fn unix(socket: impl Into<PathBuf>, export: &str) -> Uri {
        Uri::plain(Address::Unix(socket.into()), export)
    }

    /// The URI of an export at a TCP port.
    pub fn tcp(host: &str, port: u16, export: &str) -> Uri {
        Uri::plain(Address::Tcp(host.to_owned(), port), export)
    }

    fn plain(address: Address, export: &str) -> Uri {
        Uri { address, export: export.to_owned(), tls: false, security: Security::default() }
    }

    /// The same export over an encrypted connection.
    #[must_use]
    pub fn encrypted(self, security: Security) -> Uri {
        Uri { tls: true, security, ..self }
    }

    /// Parses a URI.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Uri, String> {
        let (scheme, rest) = text.split_once("://").ok_or("it has no `://`")?;
        let known = SCHEMES.iter().find(|(name, ..)| *name == scheme);
        let Some(&(_, tls, unix)) = known else {
            let names = SCHEMES.map(|(name, ..)| name).join(", ");
            return Err(format!("`{scheme}` is no scheme of NBD; the schemes are {names}"));
        };
        if rest.contains('#') {
            return Err("it has a fragment, which NBD does not use; write `#` in a name as %23".to_owned());
        }
        let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decode(path)?;
        let export = String::from_utf8(export).map_err(|_| "the name of the export is not UTF-8")?;
        if export.len() > MAX_STRING_BYTES {
            return Err(format!("the name of the export is longer than {MAX_STRING_BYTES} bytes"));
        }
        let (socket, security) = arguments(query, tls)?;
        let address = match (unix, socket) {
            (false, None) => tcp(authority)?,
            (false, Some(_)) => return Err(format!("`socket` goes with {scheme}+unix, not with {scheme}")),
            (true, _) if !authority.is_empty() => {
                return Err(format!("a Unix socket has no host; write {scheme}:///NAME?socket=PATH"));
            }
            (true, None) => return Err(format!("the socket is missing; write {scheme}:///NAME?socket=PATH")),
            (true, Some(path)) => Address::Unix(path),
        };
        Ok(Uri { address, export, tls, security })
    }
}

/// The arguments of a query.
fn arguments(query: &str, tls: bool) -> Result<(Option<PathBuf>, Security), String> {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let (mut socket, mut security, mut seen) = (None, Security::default(), Vec::new());
    for argument in query.split('&').filter(|argument| !argument.is_empty()) {
        let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
        if seen.contains(&name) {
            return Err(format!("`{name}` is given twice"));
        }
        seen.push(name);
        match name {
            "socket" if value.is_empty() => return Err("the path of the socket is empty".to_owned()),
            "socket" => socket = Some(PathBuf::from(OsString::from_vec(decode(value)?))),
            _ if security.take(name, &decode(value)?)? => {
                if !tls {
                    return Err(format!("`{name}` goes with nbds and nbds+unix, which are encrypted"));
                }
            }
            _ => {
                return Err(format!(
                    "the argument `{name}` is not known; there are socket, tls-certificates, tls-hostname and tls-verify-peer"
                ));
            }
        }
    }
    Ok((socket, security))
}

fn tcp(authority: &str) -> Result<Address, String> {
    if authority.contains('@') {
        return Err(
            "it names a user, which only encryption with shared keys has; that is not supported".to_owned()
        );
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("the `[` of the host is not closed")?;
            let port = after.strip_prefix(':').or(after.is_empty().then_some(""));
            (host, port.ok_or("only `:PORT` may follow the `]` of the host")?)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let number = if port.is_empty() { Some(PORT) } else { port.parse().ok().filter(|port| *port > 0) };
    let Some(number) = number else {
        return Err(format!("the port `{port}` is not a number from 1 to 65535"));
    };
    let host = String::from_utf8(decode(host)?).map_err(|_| "the host is not UTF-8")?;
    Ok(Address::Tcp(if host.is_empty() { "localhost".to_owned() } else { host }, number))
}

/// Resolves `%HH`.
fn decode(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let hex = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = hex.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or("a `%` is not followed by two hexadecimal digits; write `%` as %25")?);
        rest = &after[2..];
    }
    if bytes.contains(&0) {
        return Err("it contains a zero byte".to_owned());
    }
    Ok(bytes)
}

/// Writes `%HH` for everything that has a meaning of its own in a URI or in a device spec.
fn encode(f: &mut fmt::Formatter<'_>, bytes: &[u8], slash: bool) -> fmt::Result {
    for &byte in bytes {
        let plain = byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) || byte == b'/' && slash;
        if plain { write!(f, "{}", char::from(byte))? } else { write!(f, "%{byte:02X}")? }
    }
    Ok(())
}

fn encode_path(f: &mut fmt::Formatter<'_>, path: &Path) -> fmt::Result {
    use std::os::unix::ffi::OsStrExt;
    encode(f, path.as_os_str().as_bytes(), true)
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "nbds" } else { "nbd" })?;
        match &self.address {
            Address::Tcp(host, port) => {
                match host.contains(':') {
                    true => write!(f, "://[{host}]")?,
                    false => write!(f, "://{host}")?,
                }
                if *port != PORT {
                    write!(f, ":{port}")?;
                }
                f.write_str("/")?;
                encode(f, self.export.as_bytes(), true)?;
                self.security.write(f, '?')
            }
            Address::Unix(path) => {
                f.write_str("+unix:///")?;
                encode(f, self.export.as_bytes(), true)?;
                f.write_str("?socket=")?;
                encode_path(f, path)?;
                self.security.write(f, '&')
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_a_server_and_an_export() {
        for (text, uri) in [
            ("nbd://host/disk", Uri::tcp("host", PORT, "disk")),
            ("nbd://host", Uri::tcp("host", PORT, "")),
            ("nbd://", Uri::tcp("localhost", PORT, "")),
            ("nbd://10.0.0.1:7000/a%20b/c", Uri::tcp("10.0.0.1", 7000, "a b/c")),
            ("nbd://[::1]:7000/", Uri::tcp("::1", 7000, "")),
            ("nbd://[::1]", Uri::tcp("::1", PORT, "")),
            ("nbd+unix:///?socket=/run/s", Uri::unix("/run/s", "")),
            ("nbd+unix:///disk?socket=/run/a%3Fb", Uri::unix("/run/a?b", "disk")),
        ] {
            assert!(is_uri(text));
            let parsed = Uri::parse(text).unwrap();
            assert_eq!(parsed, uri, "{text}");
            assert_eq!(Uri::parse(&parsed.to_string()).as_ref(), Ok(&parsed), "{parsed}");
        }
        let all = "nbds://host/x?tls-certificates=/etc/a%20b&tls-hostname=disk.example&tls-verify-peer=no";
        let parsed = Uri::parse(all).unwrap();
        assert!(parsed.tls && !parsed.security.verify_peer);
        assert_eq!(parsed.security.certificates, Some("/etc/a b".into()));
        assert_eq!(parsed.security.hostname.as_deref(), Some("disk.example"));
        let socket = Uri::parse("nbds+unix:///x?tls-hostname=h&socket=/s").unwrap();
        for uri in [parsed, socket, Uri::parse("nbds://host/x").unwrap()] {
            assert!(uri.tls);
            assert_eq!(Uri::parse(&uri.to_string()).as_ref(), Ok(&uri), "{uri}");
        }
        assert!(!is_uri("disk.img") && !is_uri("http://host") && !is_uri("nbd:host"));
    }

    #[test]
    fn bad_uris_are_refused_with_the_reason() {
        for (text, part) in [
            ("http://host", "no scheme of NBD"),
            ("nbd:host", "no `://`"),
            ("nbd://host:0/", "port `0`"),
            ("nbd://host:65536/", "port `65536`"),
            ("nbd://host/%4", "two hexadecimal digits"),
            ("nbd://host/%+1", "two hexadecimal digits"),
            ("nbd://host/%00", "zero byte"),
            ("nbd://host/%ff", "not UTF-8"),
            ("nbd://host/x?tls=1", "`tls` is not known"),
            ("nbd://host/x?socket=/s", "goes with nbd+unix"),
            ("nbd+unix:///x", "the socket is missing"),
            ("nbd+unix://host/x?socket=/s", "has no host"),
            ("nbd+unix:///x?socket=", "path of the socket is empty"),
            ("nbd+unix:///x?socket=/a&socket=/b", "given twice"),
            ("nbds://host/x?tls-hostname=a&tls-hostname=b", "given twice"),
            ("nbd://host/x?tls-hostname=a", "goes with nbds"),
            ("nbds://host/x?tls-certificates=", "is empty"),
            ("nbds://host/x?tls-verify-peer=maybe", "neither `true` nor `false`"),
            ("nbds://host/x?tls-psk-file=/k", "not supported"),
            ("nbd://[::1/x", "not closed"),
            ("nbd://[::1]x/", "may follow"),
            ("nbd://me@host/", "user"),
            ("nbd://host/#x", "fragment"),
        ] {
            let error = Uri::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
