//! Secrets in the text of specs: `iscsi://USER%SECRET@HOST/…`.
//!
//! A text with a URI is shown in many places: errors, descriptions that clients see, reports, logs. So a secret is taken out of
//! it where the text comes in, and [`CONCEALED`] stands there from then on. Only what opens the device gets the secret back, from
//! a list of this process whose key is the whole URI: in a URI of another host the same mark stands for nothing.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What stands for a secret. A number follows if two texts would be equal otherwise.
pub const CONCEALED: &str = "***";

/// A secret of fewer bytes is not looked for in messages, which have it by chance.
const SHORTEST: usize = 4;

/// A URI with a secret.
struct Known {
    /// With marks for its secrets.
    shown: String,
    /// As it was written.
    written: String,
    /// Both as they are with escapes resolved, and the secrets.
    plain: [String; 2],
    secrets: Vec<String>,
}

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// The text with [a mark](CONCEALED) in place of each secret in its URIs. The result means the same in this process.
///
/// ```
/// use platter::spec::{conceal, reveal};
///
/// let shown = conceal("cache(iscsi://ann%secret@host/target/0)");
/// assert_eq!(shown, "cache(iscsi://ann%***@host/target/0)");
/// assert_eq!(reveal(&shown), "cache(iscsi://ann%secret@host/target/0)");
/// ```
pub fn conceal(text: &str) -> Cow<'_, str> {
    each_uri(text, |uri, quoted| {
        let secrets = secrets(uri);
        if secrets.is_empty() {
            return None;
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if known.iter().any(|one| one.shown == uri) {
            return None;
        }
        if let Some(one) = known.iter().find(|one| one.written == uri) {
            return Some(one.shown.clone());
        }
        let plain = |text: &str| if quoted { unquoted(text) } else { text.to_owned() };
        let numbers = std::iter::once(String::new()).chain((2..).map(|number: u64| number.to_string()));
        for number in numbers {
            let shown = replaced(uri, &secrets, &format!("{CONCEALED}{number}"));
            if known.iter().all(|one| one.shown != shown) {
                known.push(Known {
                    plain: [plain(&shown), plain(uri)],
                    secrets: secrets.iter().map(|secret| plain(&uri[secret.clone()])).collect(),
                    written: uri.to_owned(),
                    shown: shown.clone(),
                });
                return Some(shown);
            }
        }
        None
    })
}

/// The text with its secrets, for another process: the opposite of [`conceal`].
pub fn reveal(text: &str) -> Cow<'_, str> {
    each_uri(text, |uri, _| {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|one| one.shown == uri).map(|one| one.written.clone())
    })
}

/// The value of a word with its secrets, for what opens a device.
pub(super) fn revealed(value: String) -> String {
    if !value.contains(CONCEALED) {
        return value;
    }
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.iter().find(|one| one.plain[0] == value).map_or(value, |one| one.plain[1].clone())
}

/// A message about a spec, without the secrets of any.
pub(super) fn scrubbed(message: String) -> String {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let secrets = known.iter().flat_map(|one| &one.secrets).filter(|secret| secret.len() >= SHORTEST);
    secrets.fold(message, |message, secret| {
        let escaped = secret.escape_debug().to_string();
        [secret.as_str(), &escaped].iter().fold(message, |message, secret| {
            if message.contains(secret) { message.replace(secret, CONCEALED) } else { message }
        })
    })
}

/// Whether the values of arguments with this name are not shown in the excerpt of an error: a secret may stand there, if only by
/// mistake in place of its file.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["secret", "password", "passwd"].iter().any(|word| name.contains(word))
}

/// The text of a spec as it may be shown: each byte of [such values](is_secret) is replaced, so that positions stay.
pub fn masked(text: &str) -> Cow<'_, str> {
    let mut hidden: Vec<Range<usize>> = Vec::new();
    for (at, _) in text.match_indices('=') {
        let before = text[..at].trim_end();
        let name = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-').len();
        if is_secret(&before[name..]) {
            let value = text[at + 1..].trim_start();
            let from = text.len() - value.len();
            let len = match value.strip_prefix('"') {
                Some(rest) => 1 + quote_end(rest) + usize::from(quote_end(rest) < rest.len()),
                None => value.find([',', ')', '(', '&', '\n', ' ']).unwrap_or(value.len()),
            };
            hidden.push(from..from + len);
        }
    }
    if hidden.is_empty() {
        return Cow::Borrowed(text);
    }
    let shown = text.char_indices().map(|(at, c)| match hidden.iter().any(|range| range.contains(&at)) {
        true => "*".repeat(c.len_utf8()),
        false => c.to_string(),
    });
    Cow::Owned(shown.collect())
}

/// Calls `replace` with each URI of a text, and whether it stands in quotes; `None` leaves it.
fn each_uri<'t>(text: &'t str, mut replace: impl FnMut(&str, bool) -> Option<String>) -> Cow<'t, str> {
    let mut out = String::new();
    let (mut copied, mut pos) = (0, 0);
    while let Some(at) = text[pos..].find("://") {
        let at = pos + at;
        let scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let start = pos + text[pos..at].trim_end_matches(scheme).len();
        let quoted = text[..start].ends_with('"');
        let end = at + "://".len() + uri_len(&text[at + "://".len()..], quoted);
        if let Some(new) = replace(&text[start..end], quoted) {
            out.push_str(&text[copied..start]);
            out.push_str(&new);
            copied = end;
        }
        pos = end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

fn is_delimiter(c: char) -> bool {
    matches!(c, '(' | ')' | ',' | '"' | '\\') || c.is_whitespace() || c.is_control()
}

/// The length of the rest of a URI. A secret may have characters that end a word, and is not to be shown in the error about them.
fn uri_len(rest: &str, quoted: bool) -> usize {
    if quoted {
        return quote_end(rest);
    }
    let word = rest.find(is_delimiter).unwrap_or(rest.len());
    let host = rest[..word].split('/').next().unwrap_or_default();
    if rest[..word].contains('@') || host.starts_with('[') || !host.contains('%') {
        return word;
    }
    let line = rest.find('\n').unwrap_or(rest.len());
    let stop = rest[..line].find("://").unwrap_or(line);
    match rest[..stop].rfind('@') {
        Some(at) => at + rest[at..].find(is_delimiter).unwrap_or(rest.len() - at),
        None => word,
    }
}

/// Where the quotes end that `rest` is inside of.
fn quote_end(rest: &str) -> usize {
    let mut escaped = false;
    let end = rest.find(|c| match (escaped, c) {
        (true, _) => {
            escaped = false;
            false
        }
        (false, '\\') => {
            escaped = true;
            false
        }
        (false, c) => c == '"',
    });
    end.unwrap_or(rest.len())
}

/// What stands in quotes, with its escapes resolved as the parser does; wrong ones, which it refuses, stay.
fn unquoted(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let hex = |digits: &str| u32::from_str_radix(digits, 16).ok();
        let (byte, len) = match after.as_bytes().first() {
            Some(byte @ (b'"' | b'\\')) => (Some(vec![*byte]), 1),
            Some(b'n') => (Some(vec![b'\n']), 1),
            Some(b'r') => (Some(vec![b'\r']), 1),
            Some(b't') => (Some(vec![b'\t']), 1),
            Some(b'x') => (after.get(1..3).and_then(hex).map(|byte| vec![byte as u8]), 3),
            Some(b'u') => {
                let len = after.find('}').map_or(0, |end| end + 1);
                let c = after.get(2..len.max(3) - 1).and_then(hex).and_then(char::from_u32);
                (c.map(|c| c.to_string().into_bytes()), len)
            }
            _ => (None, 0),
        };
        match byte {
            Some(byte) => {
                bytes.extend(byte);
                rest = &after[len..];
            }
            None => {
                bytes.push(b'\\');
                rest = after;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Where a URI has secrets.
fn secrets(uri: &str) -> Vec<Range<usize>> {
    let Some(start) = uri.find("://").map(|at| at + "://".len()) else { return Vec::new() };
    let mut found = Vec::new();
    let rest = &uri[start..];
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    // In a URL of iSCSI the secret may have slashes.
    let account = if uri.starts_with("iscsi:") {
        rest.rsplit_once('@').map(|(account, _)| account)
    } else {
        host.rsplit_once('@').map(|(account, _)| account)
    };
    let marks = ['%', ':'];
    match account {
        Some(account) => {
            let at = account.find(marks);
            found.extend(at.map(|at| start + at + 1..start + account.len()));
        }
        // The host was forgotten, or its mark.
        None if !host.starts_with('[') => {
            let is_port = |text: &str| text.len() > 1 && text[1..].bytes().all(|byte| byte.is_ascii_digit());
            let at = host.find(marks).filter(|at| !(host[*at..].starts_with(':') && is_port(&host[*at..])));
            found.extend(at.map(|at| start + at + 1..start + host.len()));
        }
        None => {}
    }
    let query = uri.rfind('?').filter(|at| account.is_none_or(|account| *at >= start + account.len()));
    if let Some(query) = query {
        let mut at = query + 1;
        for pair in uri[at..].split('&') {
            if let Some((name, value)) = pair.split_once('=')
                && is_secret(name)
            {
                found.push(at + pair.len() - value.len()..at + pair.len());
            }
            at += pair.len() + 1;
        }
    }
    found.retain(|range| !range.is_empty());
    found
}

fn replaced(text: &str, parts: &[Range<usize>], with: &str) -> String {
    let mut out = String::new();
    let mut copied = 0;
    for part in parts {
        out.push_str(&text[copied..part.start]);
        out.push_str(with);
        copied = part.end;
    }
    out.push_str(&text[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_is_concealed_and_comes_back() {
        for (written, shown) in [
            ("iscsi://a%s1@h/t/0", "iscsi://a%***@h/t/0"),
            ("iscsi://a:s2@h:3/t/0", "iscsi://a:***@h:3/t/0"),
            ("iscsi://a%s/3@x%y@[::1]/t/0", "iscsi://a%***@[::1]/t/0"),
            ("f(\"iscsi://b%s,(4\\\")@h/t/0\", x=1)", "f(\"iscsi://b%***@h/t/0\", x=1)"),
            ("f(iscsi://c%s,(5 )@h/t/0, x=1)", "f(iscsi://c%***@h/t/0, x=1)"),
            ("iscsi://d%s6/t/0", "iscsi://d%***/t/0"),
            ("iscsi://d:s7/t/0", "iscsi://d:***/t/0"),
            (
                "iscsi://e%s8@h/t/0?target_user=u&target_password=s9",
                "iscsi://e%***@h/t/0?target_user=u&target_password=***",
            ),
            (
                "raid0(iscsi://f%s@h/t/0, iscsi://f%s@h/t/1)",
                "raid0(iscsi://f%***@h/t/0, iscsi://f%***@h/t/1)",
            ),
            ("s3://key:s10@bucket/x", "s3://key:***@bucket/x"),
            ("@x iscsi://é%é@h/t/0", "@x iscsi://é%***@h/t/0"),
        ] {
            assert_eq!(conceal(written), shown);
            assert_eq!(conceal(shown), shown);
            assert_eq!(reveal(shown), written);
        }
        for plain in [
            "",
            "a.img",
            "://",
            "nbd://h:10809/a%20b",
            "nbd+unix:///x@y:z?socket=a%2f",
            "iscsi://h:3260/t/0",
            "iscsi://[fe80::1%25eth0]:3260/t/0",
            "iscsi://ann@h/t/0",
        ] {
            assert_eq!(conceal(plain), plain);
            assert_eq!(reveal(plain), plain);
        }
    }

    #[test]
    fn a_mark_stands_for_the_secret_of_its_own_uri_alone() {
        let first = conceal("iscsi://g%first@h/t/0").into_owned();
        let other = conceal("iscsi://g%other@h/t/0").into_owned();
        assert_eq!((first.as_str(), other.as_str()), ("iscsi://g%***@h/t/0", "iscsi://g%***2@h/t/0"));
        assert_eq!(
            (reveal(&first), reveal(&other)),
            ("iscsi://g%first@h/t/0".into(), "iscsi://g%other@h/t/0".into())
        );
        assert_eq!(reveal("iscsi://g%***@elsewhere/t/0"), "iscsi://g%***@elsewhere/t/0");
        assert_eq!(revealed("iscsi://g%***@elsewhere/t/0".into()), "iscsi://g%***@elsewhere/t/0");
    }

    #[test]
    fn messages_lose_secrets_and_excerpts_the_values_of_secret_arguments() {
        assert_eq!(unquoted(r#"a\"b\\c\x41\u{e9}\n\q\"#), "a\"b\\cAé\n\\q\\");
        assert_eq!(unquoted("é\\u{}\\u\\xé\\x4"), "é\\u{}\\u\\xé\\x4");
        conceal("f(\"iscsi://i%qu\\\"oted@h/t/0\")");
        assert_eq!(revealed("iscsi://i%***@h/t/0".into()), "iscsi://i%qu\"oted@h/t/0");
        assert_eq!(scrubbed("not qu\"oted, nor \"qu\\\"oted\"".into()), "not ***, nor \"***\"");
        let text = "iscsi(u, secret=hunter, target_secret = \"a b\\\"c\", depth=3)";
        let shown = "iscsi(u, secret=******, target_secret = ********, depth=3)";
        assert_eq!(masked(text), shown);
        assert_eq!(masked("a(password=é)").len(), "a(password=é)".len());
        assert_eq!(masked("a(secret="), "a(secret=");
    }
}
