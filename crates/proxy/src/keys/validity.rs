//! When a certificate ends.
//!
//! # Source
//! RFC 5280, section 4.1 (`Certificate`, `Validity`); X.690 (DER)

/// Context tag 0: the version of a certificate.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Seconds since 1970 at the end of a certificate. `None` if this is none.
pub(super) fn end_s(certificate: &[u8]) -> Option<u64> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut fields, _) = element(certificate)?;
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields)?;
    let (tag, text, _) = element(element(validity)?.2)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let number = |at: usize| rest.get(at..at + 2)?.parse::<i64>().ok();
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(number);
    let days = days_since_1970(year, month?, day?);
    u64::try_from(days * 86_400 + hour? * 3_600 + minute? * 60 + second?).ok()
}

/// The first element of DER bytes: tag, content, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match *first {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let (length, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            let length = length.iter().try_fold(0_usize, |length, byte| {
                length.checked_mul(256)?.checked_add(usize::from(*byte))
            })?;
            (length, rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// Days of the Gregorian calendar from 1970-01-01 to this date.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // A year that begins in March ends with the day that leap years add.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_read() {
        for (date, expected) in [
            ((2026, 11, 28), 1_795_824_000),
            ((2000, 2, 29), 951_782_400),
            ((2077, 1, 1), 3_376_684_800),
        ] {
            let mut params = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
            params.not_before = rcgen::date_time_ymd(1999, 1, 1);
            params.not_after = rcgen::date_time_ymd(date.0, date.1, date.2);
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            assert_eq!(end_s(certificate.der()), Some(expected), "{date:?}");
            for length in 0..certificate.der().len() {
                // No panic, whatever is cut off.
                let _ = end_s(&certificate.der()[..length]);
            }
        }
        assert_eq!(end_s(b"no certificate"), None);
    }
}
