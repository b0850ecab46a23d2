//! The address of a ublk export: which block device, and how.

use crate::error::ServeError;

/// The form of an address.
pub(super) const FORM: &str = "ID|auto[,device=NAME][,queues=N][,recover][,keep][,buffers]";

/// Most queues.
const MAX_QUEUES: u16 = 64;
/// Largest number of a block device: the driver keeps 2^20 numbers.
const MAX_ID: u32 = (1 << 20) - 1;

/// What an address says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    /// The number of the block device; `None`: the kernel chooses one.
    pub(super) id: Option<u32>,
    /// The name of the device; `None`: the only one.
    pub(super) device: Option<String>,
    /// `None`: one for each processor, at most four.
    pub(super) queues: Option<u16>,
    /// A block device that another spec served may be taken over.
    pub(super) recover: bool,
    /// The block device stays when the export stops.
    pub(super) keep: bool,
    /// Data passes through buffers of the server that the kernel copies from and to.
    pub(super) buffers: bool,
}

/// Reads an address.
///
/// # Errors
/// A part is not known or out of its range.
pub(super) fn parse(text: &str) -> Result<Address, ServeError> {
    let wrong = |what: String| ServeError::usage(format!("the ublk address {text:?}: {what}; it is {FORM}"));
    let mut parts = text.split(',');
    let id = match parts.next().unwrap_or_default() {
        "auto" => None,
        number => match number.parse() {
            Ok(id) if id <= MAX_ID => Some(id),
            _ => return Err(wrong(format!("{number:?} is not auto or a number from 0 to {MAX_ID}"))),
        },
    };
    let mut address = Address { id, ..Address::default() };
    for part in parts {
        match part.split_once('=') {
            Some(("device", name)) => address.device = Some(name.to_owned()),
            Some(("queues", number)) => match number.parse() {
                Ok(queues @ 1..=MAX_QUEUES) => address.queues = Some(queues),
                _ => return Err(wrong(format!("queues is {number:?}, not 1 to {MAX_QUEUES}"))),
            },
            None if part == "recover" => address.recover = true,
            None if part == "keep" => address.keep = true,
            None if part == "buffers" => address.buffers = true,
            _ => return Err(wrong(format!("{part:?} is not known"))),
        }
    }
    if address.recover && address.id.is_none() {
        return Err(wrong("recover needs the number of the block device".to_owned()));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        assert_eq!(parse("auto").unwrap(), Address::default());
        let all = parse("3,device=a=b,queues=2,recover,keep,buffers").unwrap();
        let device = Some("a=b".to_owned());
        let expected =
            Address { id: Some(3), device, queues: Some(2), recover: true, keep: true, buffers: true };
        assert_eq!(all, expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = [
            ("", "\"\" is not auto"),
            ("-1", "\"-1\""),
            ("1048576", "0 to 1048575"),
            ("0,queues=0", "1 to 64"),
            ("0,queue=2", "\"queue=2\" is not known"),
            ("0,", "\"\" is not known"),
            ("auto,recover", "needs the number"),
        ];
        for (text, part) in wrong {
            let error = parse(text).unwrap_err();
            assert!(error.is_usage() && error.to_string().contains(part), "{error}");
        }
    }
}
