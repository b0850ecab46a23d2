//! CHAP, by which an initiator shows that it knows a secret (RFC 1994; RFC 7143, section 13.1.4).

use crate::error::ServeError;
use md5::{Digest, Md5};
use platter_remote::iscsi::text;
use std::fmt;
use std::io;
use std::path::Path;

/// The number of MD5 in CHAP_A. Initiators must have it; what an eavesdropper learns lets it guess weak secrets.
const MD5: &str = "5";

/// Shortest secret, in bytes, that is accepted: 96 bits.
pub const MIN_SECRET_BYTES: usize = 12;

/// Length of a challenge in bytes.
const CHALLENGE_BYTES: usize = 24;

/// The name and the secret that initiators must have.
#[derive(Clone, PartialEq, Eq)]
pub struct Chap {
    user: String,
    secret: String,
}

impl fmt::Debug for Chap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chap").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Chap {
    /// A name and a secret.
    ///
    /// # Errors
    /// The name is empty, or the secret shorter than [`MIN_SECRET_BYTES`]: a sentence without the secret.
    pub fn new(user: &str, secret: &str) -> Result<Chap, String> {
        if user.is_empty() {
            return Err("the name of CHAP is empty".to_owned());
        }
        if secret.len() < MIN_SECRET_BYTES {
            return Err(format!(
                "the secret of CHAP has {} bytes; at least {MIN_SECRET_BYTES} are needed",
                secret.len()
            ));
        }
        Ok(Chap { user: user.to_owned(), secret: secret.to_owned() })
    }

    /// A name, and the secret in a file; a line end after it is not part of it.
    ///
    /// # Errors
    /// The file cannot be read, or as for [`new`](Chap::new).
    pub fn load(user: &str, secret: &Path) -> Result<Chap, ServeError> {
        let shown = secret.display();
        let read = std::fs::read_to_string(secret);
        let text =
            read.map_err(|error| ServeError::system(format!("cannot read the secret {shown}: {error}")))?;
        Chap::new(user, text.trim_end_matches(['\r', '\n']))
            .map_err(|error| ServeError::usage(format!("{error} ({shown})")))
    }

    /// The algorithm of a list that is used.
    pub(crate) fn choose(&self, algorithms: &str) -> Option<&'static str> {
        algorithms.split(',').any(|one| one == MD5).then_some(MD5)
    }

    /// Whether this is the answer to the challenge.
    pub(crate) fn accepts(&self, challenge: &Challenge, user: &str, response: &str) -> bool {
        let Some(response) = text::from_binary(response) else { return false };
        let expected = challenge.answer(&self.secret);
        // Without an early end, so that the time tells nothing of the first wrong byte.
        let differs = expected.iter().zip(&response).fold(0, |sum, (a, b)| sum | (a ^ b));
        differs == 0 && response.len() == expected.len() && user == self.user
    }
}

/// A challenge.
pub(crate) struct Challenge {
    identifier: u8,
    bytes: [u8; CHALLENGE_BYTES],
}

impl Challenge {
    /// A random one.
    pub(crate) fn new() -> io::Result<Challenge> {
        let mut bytes = [0; CHALLENGE_BYTES + 1];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        let mut challenge = Challenge { identifier: bytes[CHALLENGE_BYTES], bytes: [0; CHALLENGE_BYTES] };
        challenge.bytes.copy_from_slice(&bytes[..CHALLENGE_BYTES]);
        Ok(challenge)
    }

    pub(crate) fn identifier(&self) -> u8 {
        self.identifier
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What an initiator with this secret answers.
    pub(crate) fn answer(&self, secret: &str) -> [u8; 16] {
        let mut hash = Md5::new();
        hash.update([self.identifier]);
        hash.update(secret.as_bytes());
        hash.update(self.bytes);
        hash.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_answers_a_challenge() {
        let chap = Chap::new("user", "a secret of 96 bits").unwrap();
        let challenge = Challenge::new().unwrap();
        let right = text::to_hex(&challenge.answer("a secret of 96 bits"));
        assert!(chap.accepts(&challenge, "user", &right));
        assert!(!chap.accepts(&challenge, "other", &right));
        assert!(!chap.accepts(&challenge, "user", &text::to_hex(&challenge.answer("another secret"))));
        assert!(!chap.accepts(&Challenge::new().unwrap(), "user", &right));
        for wrong in ["", "0x", "0x00", "right", &format!("{right}00")] {
            assert!(!chap.accepts(&challenge, "user", wrong), "{wrong}");
        }
        assert!(!format!("{chap:?}").contains("secret of"));
    }

    #[test]
    fn an_answer_is_the_hash_of_identifier_secret_and_challenge() {
        // `printf '\x01secret of 96 bits' | …` followed by 24 bytes 07h, by md5sum.
        let challenge = Challenge { identifier: 1, bytes: [7; CHALLENGE_BYTES] };
        assert_eq!(text::to_hex(&challenge.answer("secret of 96 bits")), MD5SUM);
        assert!(Chap::new("user", "short").unwrap_err().contains("at least 12"));
        assert!(Chap::new("", "a secret of 96 bits").is_err());
    }

    const MD5SUM: &str = "0x9ad0dcd3a1dbb180af5db1b476df5125";
}
