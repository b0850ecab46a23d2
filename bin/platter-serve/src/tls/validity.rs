//! The end of the validity of a certificate (RFC 5280, 4.1): the TLS library checks those of peers, and not its own.

use std::time::{Duration, SystemTime};

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The value of the next element of DER, which is taken from `rest`, and its tag.
fn element<'d>(rest: &mut &'d [u8]) -> Option<(u8, &'d [u8])> {
    let (&[tag, first], mut after) = rest.split_first_chunk::<2>()?;
    let length = match first {
        0..0x80 => usize::from(first),
        _ => {
            let (bytes, left) = after.split_at_checked(usize::from(first & 0x7f))?;
            after = left;
            let add =
                |length: usize, byte: &u8| length.checked_mul(256).map(|length| length | usize::from(*byte));
            bytes.iter().try_fold(0, add)?
        }
    };
    let (value, left) = after.split_at_checked(length)?;
    *rest = left;
    Some((tag, value))
}

fn expect<'d>(rest: &mut &'d [u8], tag: u8) -> Option<&'d [u8]> {
    element(rest).and_then(|(found, value)| (found == tag).then_some(value))
}

/// The last second for which a certificate is valid. `None`: it is not in the form that is read here.
pub(super) fn not_after(certificate: &[u8]) -> Option<SystemTime> {
    let mut rest = certificate;
    let mut outer = expect(&mut rest, SEQUENCE)?;
    let mut fields = expect(&mut outer, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        element(&mut fields)?;
    }
    // The serial number, the algorithm, the issuer.
    expect(&mut fields, INTEGER)?;
    expect(&mut fields, SEQUENCE)?;
    expect(&mut fields, SEQUENCE)?;
    let mut validity = expect(&mut fields, SEQUENCE)?;
    element(&mut validity)?;
    let (tag, text) = element(&mut validity)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &str) -> Option<SystemTime> {
    let digits = text.strip_suffix('Z').filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    let year_digits = match (tag, digits.len()) {
        (UTC_TIME, 12) => 2,
        (GENERALIZED_TIME, 14) => 4,
        _ => return None,
    };
    let (year, rest) = digits.split_at(year_digits);
    let year: i64 = year.parse().ok()?;
    let year = match year_digits {
        2 if year < 50 => year + 2000,
        2 => year + 1900,
        _ => year,
    };
    let part = |at: usize| rest[at..at + 2].parse::<i64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    let seconds = part(4)? * 3600 + part(6)? * 60 + part(8)?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since the beginning of 1970, of years that begin in March.
    let (shifted, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + (153 * month + 2) / 5 + day - 719_469;
    let seconds = u64::try_from(days * 86_400 + seconds).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(tag: u8, text: &str) -> Option<u64> {
        let at = time(tag, text)?;
        Some(at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn times_are_those_of_date() {
        // By `date -u -d … +%s`.
        assert_eq!(seconds(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(seconds(UTC_TIME, "000229235959Z"), Some(951_868_799));
        assert_eq!(seconds(UTC_TIME, "261128120000Z"), Some(1_795_867_200));
        assert_eq!(seconds(GENERALIZED_TIME, "20991231235959Z"), Some(4_102_444_799));
        assert_eq!(seconds(GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        for wrong in
            ["", "Z", "261328120000Z", "261100120000Z", "26112812000Z", "261128120000", "2611281200+0Z"]
        {
            assert_eq!(seconds(UTC_TIME, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_end_is_read_from_certificates_and_from_nothing_else() {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2031, 2, 3);
        let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let der = certificate.der().to_vec();
        let wanted = SystemTime::UNIX_EPOCH + Duration::from_secs(1_927_843_200);
        assert_eq!(not_after(&der), Some(wanted));
        for end in 0..der.len() {
            // It is cut anywhere.
            assert!(not_after(&der[..end]).is_none(), "{end}");
        }
        assert_eq!(not_after(&[SEQUENCE, 0xff]), None);
        assert_eq!(not_after(&[0x30, 0x89, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]), None);
    }
}
