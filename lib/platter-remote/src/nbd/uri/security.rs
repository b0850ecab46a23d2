//! What a URI says about encryption.

use std::fmt;
use std::path::PathBuf;

/// The arguments of a URI about encryption, by the names of the NBD project.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Security {
    /// `tls-certificates`: a folder with `ca-cert.pem` (authorities that the server's certificate may be from; without the
    /// file, those of the system), and `client-cert.pem` with `client-key.pem` (for servers that ask for a certificate).
    pub certificates: Option<PathBuf>,
    /// `tls-hostname`: the name that the server's certificate must have, if it is not the host of the address.
    pub hostname: Option<String>,
    /// `tls-verify-peer`: whether the server's certificate is checked.
    pub verify_peer: bool,
}

impl Default for Security {
    fn default() -> Security {
        Security { certificates: None, hostname: None, verify_peer: true }
    }
}

impl Security {
    /// Takes an argument. `false`: it has another name.
    pub(super) fn take(&mut self, name: &str, value: &[u8]) -> Result<bool, String> {
        use std::ffi::OsString;
        use std::os::unix::ffi::OsStringExt;
        match name {
            "tls-certificates" if value.is_empty() => Err("the path of tls-certificates is empty".to_owned()),
            "tls-certificates" => {
                self.certificates = Some(PathBuf::from(OsString::from_vec(value.to_vec())));
                Ok(true)
            }
            "tls-hostname" => {
                let text = String::from_utf8(value.to_vec()).map_err(|_| "tls-hostname is not UTF-8")?;
                if text.is_empty() {
                    return Err("tls-hostname is empty".to_owned());
                }
                self.hostname = Some(text);
                Ok(true)
            }
            "tls-verify-peer" => {
                self.verify_peer = match value {
                    b"true" | b"1" | b"yes" | b"on" => true,
                    b"false" | b"0" | b"no" | b"off" => false,
                    _ => return Err("tls-verify-peer is neither `true` nor `false`".to_owned()),
                };
                Ok(true)
            }
            "tls-psk-file" => {
                Err("tls-psk-file is not supported; use certificates (tls-certificates)".to_owned())
            }
            _ => Ok(false),
        }
    }

    /// Writes the arguments that are not the default, each with `before` in front of the first and `&` of the others.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, before: char) -> fmt::Result {
        use std::os::unix::ffi::OsStrExt;
        let mut before = before;
        let mut begin = |f: &mut fmt::Formatter<'_>, name: &str| {
            let now = std::mem::replace(&mut before, '&');
            write!(f, "{now}{name}=")
        };
        if let Some(path) = &self.certificates {
            begin(f, "tls-certificates")?;
            super::encode(f, path.as_os_str().as_bytes(), true)?;
        }
        if let Some(name) = &self.hostname {
            begin(f, "tls-hostname")?;
            super::encode(f, name.as_bytes(), true)?;
        }
        if !self.verify_peer {
            begin(f, "tls-verify-peer")?;
            f.write_str("false")?;
        }
        Ok(())
    }
}
