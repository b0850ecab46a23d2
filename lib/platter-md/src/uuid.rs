//! Numbers of arrays and members.

use std::fmt;

/// The number of an array or member. It is shown in the usual form of a UUID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// In the form that mdadm uses: four groups of eight digits.
    pub fn as_mdadm(&self) -> String {
        let mut text = String::with_capacity(35);
        for (at, byte) in self.0.iter().enumerate() {
            if at > 0 && at % 4 == 0 {
                text.push(':');
            }
            text += &format!("{byte:02x}");
        }
        text
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}
