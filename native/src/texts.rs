//! Types that JSON writes as text: moments, dates and bytes.
//!
//! The common forms are read here. A text that surely is none does not fit; one in a rare form is odd, for the strict
//! line reader to decide.

use crate::cursor::{Read, Stop};

const DAY: i64 = 86_400_000_000;
const FIRST_DAY: i64 = -719_162;
const LAST_DAY: i64 = 2_932_896;

/// The moment, if it lies in the years 1 to 9999.
pub fn in_calendar(moment: i64) -> Read<i64> {
    if (FIRST_DAY * DAY..(LAST_DAY + 1) * DAY).contains(&moment) { Ok(moment) } else { Err(Stop::Misfit) }
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))
}

/// The day of `YYYY-MM-DD`, counted from 1970; a misfit unless the text is written so.
fn day(text: &[u8]) -> Read<i64> {
    let parts = match text {
        [year @ .., b'-', m0, m1, b'-', d0, d1] if year.len() == 4 => {
            number(year).zip(number(&[*m0, *m1])).zip(number(&[*d0, *d1]))
        }
        _ => None,
    };
    let ((year, month), day) = parts.ok_or(Stop::Misfit)?;
    if year == 0 {
        return Err(Stop::Odd); // an offset may bring it into the calendar
    }
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 31,
    };
    if !(1..=12).contains(&month) || !(1..=length).contains(&day) {
        return Err(Stop::Misfit);
    }
    // years begin in March here, so that the leap day is the last of a year
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    Ok(year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469)
}

pub fn date(text: &[u8]) -> Read<i32> {
    day(text).map(|day| day as i32)
}

/// Microseconds since 1970, UTC.
pub fn moment(text: &[u8]) -> Read<i64> {
    let Some((date, rest)) = text.split_at_checked(10) else { return Err(Stop::Misfit) };
    let midnight = day(date)? * DAY;
    if rest.is_empty() {
        return Ok(midnight);
    }
    let (time, rest) = time(rest).ok_or(Stop::Odd)?;
    let (fraction, rest) = match rest.strip_prefix(b".") {
        Some(rest) => fraction(rest)?,
        None => (0, rest),
    };
    let offset = offset(rest).ok_or(Stop::Odd)?;
    in_calendar(midnight + time + fraction - offset)
}

fn time(text: &[u8]) -> Option<(i64, &[u8])> {
    let [b'T' | b' ', h0, h1, b':', m0, m1, rest @ ..] = text else { return None };
    let (seconds, rest) = match rest {
        [b':', s0, s1, rest @ ..] => (number(&[*s0, *s1])?, rest),
        [b'.', ..] => return None,
        _ => (0, rest),
    };
    let (hours, minutes) = (number(&[*h0, *h1])?, number(&[*m0, *m1])?);
    (hours < 24 && minutes < 60 && seconds < 60).then_some((((hours * 60 + minutes) * 60 + seconds) * 1_000_000, rest))
}

fn fraction(text: &[u8]) -> Read<(i64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(length);
    let kept = &digits[..length.min(6)];
    if length == 0 {
        return Err(Stop::Odd);
    }
    if digits[kept.len()..].iter().any(|&digit| digit != b'0') {
        return Err(Stop::Misfit);
    }
    let value = number(kept).ok_or(Stop::Odd)?;
    Ok((value * 10i64.pow(6 - kept.len() as u32), rest))
}

fn offset(text: &[u8]) -> Option<i64> {
    let (sign, h0, h1, m0, m1) = match text {
        [] | [b'Z'] => return Some(0),
        [sign @ (b'+' | b'-'), h0, h1, b':', m0, m1] | [sign @ (b'+' | b'-'), h0, h1, m0, m1] => (sign, h0, h1, m0, m1),
        [sign @ (b'+' | b'-'), h0, h1] => (sign, h0, h1, &b'0', &b'0'),
        _ => return None,
    };
    let (hours, minutes) = (number(&[*h0, *h1])?, number(&[*m0, *m1])?);
    let size = (hours * 60 + minutes) * 60_000_000;
    (hours < 24 && minutes < 60).then_some(if *sign == b'-' { -size } else { size })
}

/// Append the bytes that a text is in base64; nothing is appended where it is none.
pub fn base64(text: &[u8], out: &mut Vec<u8>) -> Read<()> {
    let filled = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    if !text.len().is_multiple_of(4) {
        return Err(Stop::Odd);
    }
    let before = out.len();
    let (mut bits, mut count) = (0u32, 0);
    for &byte in &text[..text.len() - filled] {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => {
                out.truncate(before);
                return Err(Stop::Odd);
            }
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Ok(())
}
