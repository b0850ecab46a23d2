//! Where a disk is: `iscsi://[USER[%SECRET]@]HOST[:PORT]/TARGET/LUN`, as libiscsi writes it.

use super::terms::Digest;
use std::fmt;

/// The port that the protocol has.
const PORT: u16 = 3260;
/// Highest logical unit number of the flat addressing method (SAM-5).
const MAX_LUN: u16 = 16383;
/// Longest name of a target (RFC 7143, 4.2.7.1).
const MAX_NAME: usize = 223;
/// Longest text that libiscsi keeps.
const MAX_TEXT: usize = 255;

/// Why a text is not the URL of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUrl(String);

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadUrl {}

/// A name and its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub name: String,
    /// The secret.
    pub secret: String,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A portal: where targets are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portal {
    /// Name or address of the host.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Portal {
    /// Reads `HOST[:PORT]`; an address of IPv6 stands in brackets.
    ///
    /// # Errors
    /// There is no host, or the port is not a number up to 65535.
    pub fn parse(text: &str) -> Result<Portal, BadUrl> {
        let bad = |what: &str| BadUrl(format!("{what} in {text:?}; write HOST or HOST:PORT"));
        let (host, rest) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(|| bad("no ] behind the address"))?,
            None => text.find(':').map_or((text, ""), |at| text.split_at(at)),
        };
        let port = match rest.strip_prefix(':') {
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(bad(&format!("a port is a number from 1 to 65535, not {port:?},"))),
            },
            None if rest.is_empty() => PORT,
            None => return Err(bad("something other than a port behind the address")),
        };
        if host.contains('%') && !text.starts_with('[') {
            // It may be a secret.
            return Err(BadUrl("a `%` in the host; a user and a secret end with `@`".to_owned()));
        }
        if host.is_empty() || host.len() > MAX_TEXT || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad("no host"));
        }
        Ok(Portal { host: host.to_owned(), port })
    }
}

impl fmt::Display for Portal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (&self.host, self.port);
        match (host.contains(':'), port) {
            (true, PORT) => write!(f, "[{host}]"),
            (true, _) => write!(f, "[{host}]:{port}"),
            (false, PORT) => f.write_str(host),
            (false, _) => write!(f, "{host}:{port}"),
        }
    }
}

/// Where a disk is, and how to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Where its target is reached.
    pub portal: Portal,
    /// Name of the target.
    pub target: String,
    /// Number of the logical unit.
    pub lun: u16,
    /// By which the initiator shows who it is (CHAP).
    pub user: Option<Account>,
    /// By which the target shows who it is (CHAP).
    pub target_user: Option<Account>,
    /// Checksums over headers.
    pub digest: Digest,
}

impl Url {
    /// Reads a URL. Users that it does not name are taken from `variable`, which returns environment variables: those of
    /// libiscsi, `LIBISCSI_CHAP_USERNAME` and so on.
    ///
    /// # Errors
    /// What is wrong, without secrets.
    pub fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Url, BadUrl> {
        let bad =
            |what: String| BadUrl(format!("{what}; write iscsi://[USER[%SECRET]@]HOST[:PORT]/TARGET/LUN"));
        let rest =
            text.strip_prefix("iscsi://").ok_or_else(|| bad("it does not begin with iscsi://".to_owned()))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (account, place) = match place.rsplit_once('@') {
            Some((account, place)) => (Some(account), place),
            None => (None, place),
        };
        let mut parts = place.split('/');
        let (portal, target, lun) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let (Some(target), Some(lun), None) = (target, lun, parts.next()) else {
            return Err(bad("it has not exactly a host, a target and a logical unit".to_owned()));
        };
        let mut url = Url {
            portal: Portal::parse(portal)?,
            target: name(target).map_err(bad)?,
            lun: match lun.parse() {
                Ok(lun) if lun <= MAX_LUN => lun,
                _ => return Err(bad(format!("a logical unit is a number from 0 to {MAX_LUN}, not {lun:?}"))),
            },
            user: environment(&variable, ["LIBISCSI_CHAP_USERNAME", "LIBISCSI_CHAP_PASSWORD"]),
            target_user: environment(
                &variable,
                ["LIBISCSI_CHAP_TARGET_USERNAME", "LIBISCSI_CHAP_TARGET_PASSWORD"],
            ),
            digest: Digest::Either,
        };
        if let Some(account) = account {
            let (name, secret) = account.split_once(['%', ':']).unwrap_or((account, ""));
            // A name alone has its secret from elsewhere.
            let secret = match (secret, &url.user) {
                ("", Some(user)) => user.secret.clone(),
                _ => secret.to_owned(),
            };
            url.user = Some(Account { name: name.to_owned(), secret });
        }
        url.options(query).map_err(bad)?;
        url.check().map_err(bad)?;
        Ok(url)
    }

    fn options(&mut self, query: &str) -> Result<(), String> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let account = || Account { name: String::new(), secret: String::new() };
            match (key, value) {
                ("target_user", _) => {
                    self.target_user.get_or_insert_with(account).name = value.to_owned();
                }
                ("target_password", _) => {
                    self.target_user.get_or_insert_with(account).secret = value.to_owned();
                }
                ("header_digest", "none") => self.digest = Digest::None,
                ("header_digest", "crc32c") => self.digest = Digest::Crc32c,
                ("header_digest", _) => {
                    return Err(format!("header_digest is none or crc32c, not {value:?}"));
                }
                _ => {
                    return Err(format!(
                        "unknown option {key:?}; there are target_user, target_password, header_digest"
                    ));
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let mut accounts = self.user.iter().chain(&self.target_user);
        if accounts.any(|account| account.name.len() > MAX_TEXT || account.secret.len() > MAX_TEXT) {
            return Err(format!("a user or secret of more than {MAX_TEXT} bytes"));
        }
        if self.target_user.is_some() && self.user.is_none() {
            return Err("a target shows who it is only to an initiator that does; name a user too".to_owned());
        }
        Ok(())
    }

    /// The same with another logical unit.
    #[must_use]
    pub fn with_lun(&self, lun: u16) -> Url {
        Url { lun, ..self.clone() }
    }
}

/// The name of a target, whose letters may be written as %XX.
fn name(text: &str) -> Result<String, String> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        let digits = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let byte = digits.filter(u8::is_ascii_graphic);
        let byte = byte.ok_or_else(|| {
            format!("% is followed by two hexadecimal digits of a letter, not so in {text:?}")
        })?;
        name.push_str(before);
        name.push(char::from(byte));
        rest = &after[2..];
    }
    name.push_str(rest);
    match !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(name),
        false => {
            Err(format!("the name of a target has 1 to {MAX_NAME} letters without spaces, not so {text:?}"))
        }
    }
}

fn environment(variable: &impl Fn(&str) -> Option<String>, [name, secret]: [&str; 2]) -> Option<Account> {
    Some(Account { name: variable(name)?, secret: variable(secret).unwrap_or_default() })
}

impl fmt::Display for Url {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("iscsi://")?;
        if let Some(user) = &self.user {
            write!(f, "{}@", user.name)?;
        }
        write!(f, "{}/{}/{}", self.portal, self.target, self.lun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Url, BadUrl> {
        Url::parse(text, |_| None)
    }

    #[test]
    fn every_part_is_read_and_shown_without_secrets() {
        let url = parse("iscsi://ann%pa/s@s%x@[fe80::1]:3261/iqn.2026-11.a:b%3ac/7?target_user=t&target_password=u&header_digest=crc32c")
            .unwrap();
        assert_eq!(url.portal, Portal { host: "fe80::1".into(), port: 3261 });
        assert_eq!((url.target.as_str(), url.lun, url.digest), ("iqn.2026-11.a:b:c", 7, Digest::Crc32c));
        let account = |name: &str, secret: &str| Some(Account { name: name.into(), secret: secret.into() });
        assert_eq!((&url.user, &url.target_user), (&account("ann", "pa/s@s%x"), &account("t", "u")));
        assert_eq!(url.to_string(), "iscsi://ann@[fe80::1]:3261/iqn.2026-11.a:b:c/7");
        assert!(!format!("{url:?}").contains("pa/s"));
        let plain = parse("iscsi://host/iqn.2026-11.a:b/0").unwrap();
        assert_eq!(plain.portal, Portal { host: "host".into(), port: 3260 });
        assert_eq!(plain.to_string(), "iscsi://host/iqn.2026-11.a:b/0");
    }

    #[test]
    fn users_come_from_the_environment_unless_the_url_has_them() {
        let variable = |name: &str| Some(name.to_ascii_lowercase());
        let url = Url::parse("iscsi://h/t/0", variable).unwrap();
        assert_eq!(url.user.unwrap().secret, "libiscsi_chap_password");
        assert_eq!(url.target_user.unwrap().name, "libiscsi_chap_target_username");
        let url = Url::parse("iscsi://ann@h/t/0", variable).unwrap();
        assert_eq!(
            url.user.unwrap(),
            Account { name: "ann".into(), secret: "libiscsi_chap_password".into() }
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("nbd://h/t/0", "iscsi://"),
            ("iscsi://h/t", "exactly"),
            ("iscsi://h/t/0/1", "exactly"),
            ("iscsi:///t/0", "no host"),
            ("iscsi://[::1/t/0", "]"),
            ("iscsi://h:70000/t/0", "\"70000\""),
            ("iscsi://h:0/t/0", "\"0\""),
            ("iscsi://h//0", "name of a target"),
            ("iscsi://h/a%zz/0", "%"),
            ("iscsi://h/t/16384", "\"16384\""),
            ("iscsi://h/t/x", "\"x\""),
            ("iscsi://h/t/0?colour=red", "\"colour\""),
            ("iscsi://h/t/0?header_digest=md5", "\"md5\""),
            ("iscsi://h/t/0?target_user=a", "name a user"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(Portal::parse("[::1]x").is_err() && Portal::parse("h:").is_err());
    }
}
