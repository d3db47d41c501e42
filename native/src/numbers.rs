//! Numbers as they are written, and the exact ways from there into the types of columns.
//!
//! The rules: a whole number keeps its value or does not fit; a fraction is rounded to the nearest float; nothing
//! becomes infinite, or 0 without being 0. `lenient` cuts and rounds instead. What has more digits than 128 bits hold,
//! or an exponent of many digits, is odd: the strict line reader has numbers without bounds.

use crate::cursor::{HIGHS, ONES, Read, Stop};

/// A number as it was written; `mantissa` has its digits if they are at most 19.
#[derive(Clone, Copy, Debug)]
pub struct Number<'a> {
    pub text: &'a [u8],
    is_negative: bool,
    mantissa: u64,
    digits: usize,
    fraction: usize,
    exponent: i64,
    is_whole: bool,
}

const MOST_DIGITS: usize = 19;
const FARTHEST: i64 = 300;
const LARGEST_EXPONENT: i64 = u32::MAX as i64;
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

fn digit(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10)
}

/// Where the digits end that stand from `at` on, and the number that they continue, as far as 64 bits hold it.
#[inline(always)]
fn scan_digits(bytes: &[u8], mut at: usize, mut number: u64) -> (usize, u64) {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk) ^ (ONES * u64::from(b'0'));
        // the lowest high bit marks the first byte beyond 9; what a sum carries reaches only bytes behind that one
        let others = (word.wrapping_add(ONES * 0x76) | word) & HIGHS;
        if others == 0 {
            number = number.wrapping_mul(100_000_000).wrapping_add(eight_digits(word));
            at += 8;
            continue;
        }
        let count = others.trailing_zeros() as usize / 8;
        let before = (word << (56 - 8 * count)) << 8; // with zeros in front
        return (at + count, number.wrapping_mul(TENS[count]).wrapping_add(eight_digits(before)));
    }
    while let Some(found) = digit(bytes, at) {
        number = number.wrapping_mul(10).wrapping_add(u64::from(found));
        at += 1;
    }
    (at, number)
}

/// The number of eight digits, the first in the lowest byte: pairs of neighbours become one, three times.
fn eight_digits(word: u64) -> u64 {
    let pairs = (word.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000 << 32 | 1) >> 32
}

/// The powers of ten.
const TENS: [u64; 20] = {
    let mut tens = [1; 20];
    let mut power = 1;
    while power < tens.len() {
        tens[power] = tens[power - 1] * 10;
        power += 1;
    }
    tens
};

/// The float that is nearest to the quotient of two numbers, the first of at least 2^53.
///
/// The first is taken 2^65 times, and the second is less than 2^64, so the quotient `q` lies at or above an even whole number
/// of at least 55 bits, and below the next even one. `sum` is that number if `q` is, else the odd one behind it. Floats of
/// that size, and what lies half-way between two of them, are even whole numbers: `sum` is on the same side of each as `q`
/// is, so both have the same nearest float. The last division, by a power of two, is exact.
fn quotient(number: u64, divisor: u64) -> f64 {
    let (number, divisor) = (u128::from(number) << 64, u128::from(divisor));
    let whole = number / divisor;
    let sum = whole << 1 | u128::from(whole * divisor != number);
    sum as f64 / (1u128 << 65) as f64
}

impl<'a> Number<'a> {
    /// The number that `bytes` begin with, by the grammar of JSON.
    #[inline(always)]
    pub fn begin(bytes: &'a [u8]) -> Option<Self> {
        let is_negative = bytes[0] == b'-';
        let start = usize::from(is_negative);
        match bytes.get(start)? {
            b'0' if bytes.get(start + 1).is_some_and(u8::is_ascii_digit) => return None,
            b'0'..=b'9' => {}
            _ => return None,
        }
        let found = Self::scan(bytes, start, is_negative)?;
        if !found.is_whole && found.fraction == 0 && found.text.get(start..)?.contains(&b'.') {
            return None;
        }
        Some(found)
    }

    /// A number that is written as a text: with a plus, or without digits before or behind the point, if need be.
    pub fn whole(bytes: &'a [u8]) -> Option<Self> {
        let sign = bytes.first().copied().filter(|byte| matches!(byte, b'+' | b'-'));
        let found = Self::scan(bytes, usize::from(sign.is_some()), sign == Some(b'-'))?;
        (found.digits > 0 && found.text.len() == bytes.len()).then_some(found)
    }

    #[inline(always)]
    fn scan(bytes: &'a [u8], start: usize, is_negative: bool) -> Option<Self> {
        let (mut at, mut mantissa) = scan_digits(bytes, start, 0);
        let mut digits = at - start;
        let mut fraction = 0;
        let mut exponent = 0;
        let mut is_whole = true;
        if bytes.get(at) == Some(&b'.') {
            is_whole = false;
            at += 1;
            let point = at;
            (at, mantissa) = scan_digits(bytes, point, mantissa);
            fraction = at - point;
            digits += fraction;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            is_whole = false;
            at += 1;
            let sign = bytes.get(at).copied().filter(|byte| matches!(byte, b'+' | b'-'));
            at += usize::from(sign.is_some());
            digit(bytes, at)?;
            while let Some(found) = digit(bytes, at) {
                exponent = (exponent * 10 + i64::from(found)).min(LARGEST_EXPONENT);
                at += 1;
            }
            if sign == Some(b'-') {
                exponent = -exponent;
            }
        }
        Some(Number { text: &bytes[..at], is_negative, mantissa, digits, fraction, exponent, is_whole })
    }

    /// Whether it is written without a point and an exponent.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    fn is_short(&self) -> bool {
        self.digits <= MOST_DIGITS
    }

    fn is_zero(&self) -> bool {
        if self.is_short() {
            return self.mantissa == 0;
        }
        let before = self.text.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
        before.filter(|byte| byte.is_ascii_digit()).all(|&byte| byte == b'0')
    }

    /// Its digits and the power of ten behind them, without zeros at the end.
    fn exact(&self) -> Read<(u128, i64)> {
        let mut mantissa = u128::from(self.mantissa);
        if !self.is_short() {
            mantissa = 0;
            let before = self.text.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
            for byte in before.filter(|byte| byte.is_ascii_digit()) {
                let digit = u128::from(byte - b'0');
                mantissa = mantissa.checked_mul(10).and_then(|value| value.checked_add(digit)).ok_or(Stop::Odd)?;
            }
        }
        if mantissa == 0 {
            return Ok((0, 0));
        }
        let mut exponent = self.exponent - self.fraction as i64;
        if exponent.abs() > FARTHEST {
            return Err(Stop::Odd);
        }
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        Ok((mantissa, exponent))
    }

    /// The number times a power of ten, as a whole number; digits behind its point are cut if `lenient`.
    fn scaled(&self, scale: i64, lenient: bool) -> Read<i128> {
        let (mantissa, exponent) = self.exact()?;
        let power = exponent + scale;
        if power < 0 && !lenient {
            return Err(Stop::Misfit);
        }
        let factor = u32::try_from(power.abs()).ok().and_then(|power| 10u128.checked_pow(power));
        let value = match factor {
            Some(factor) if power < 0 => mantissa / factor,
            Some(factor) => mantissa.checked_mul(factor).ok_or(Stop::Misfit)?,
            None if power < 0 => 0,
            None => return Err(Stop::Misfit),
        };
        let value = i128::try_from(value).map_err(|_| Stop::Odd)?;
        Ok(if self.is_negative { -value } else { value })
    }

    #[inline(always)]
    pub fn int64(&self, lenient: bool) -> Read<i64> {
        if self.is_whole && self.digits < MOST_DIGITS {
            let value = self.mantissa as i64;
            return Ok(if self.is_negative { -value } else { value });
        }
        i64::try_from(self.scaled(0, lenient)?).map_err(|_| Stop::Misfit)
    }

    pub fn int32(&self, lenient: bool) -> Read<i32> {
        i32::try_from(self.int64(lenient)?).map_err(|_| Stop::Misfit)
    }

    pub fn decimal(&self, precision: u8, scale: u8, lenient: bool) -> Read<i128> {
        let value = self.scaled(i64::from(scale), lenient)?;
        if value.unsigned_abs() >= 10u128.pow(u32::from(precision)) {
            return Err(Stop::Misfit);
        }
        Ok(value)
    }

    #[inline(always)]
    pub fn float64(&self, lenient: bool) -> Read<f64> {
        let power = self.exponent - self.fraction as i64;
        if self.is_short() && self.mantissa <= 1 << 53 && (-22..=22).contains(&power) {
            let whole = self.mantissa as f64;
            let value = if power < 0 { whole / POWERS[-power as usize] } else { whole * POWERS[power as usize] };
            return Ok(if self.is_negative { -value } else { value });
        }
        if self.is_short() && (-19..0).contains(&power) {
            let value = quotient(self.mantissa, TENS[-power as usize]);
            return Ok(if self.is_negative { -value } else { value });
        }
        let value: f64 = self.nearest()?;
        self.check(value, value.abs() as u128, lenient)?;
        Ok(value)
    }

    pub fn float32(&self, lenient: bool) -> Read<f32> {
        let value: f32 = self.nearest()?;
        if value.abs() == f32::MAX {
            return Err(Stop::Odd); // a double on the way would make it infinite
        }
        self.check(f64::from(value), value.abs() as u128, lenient)?;
        Ok(value)
    }

    pub fn nearest<T: std::str::FromStr>(&self) -> Read<T> {
        if self.exponent.abs() == LARGEST_EXPONENT && !self.is_zero() {
            return Err(Stop::Odd); // there is an exponent from which on the strict line reader has no number
        }
        std::str::from_utf8(self.text).ok().and_then(|text| text.parse().ok()).ok_or(Stop::Odd)
    }

    /// Whether a float is what was written, as far as it must be; `whole` is its size without a fraction.
    fn check(&self, value: f64, whole: u128, lenient: bool) -> Read<()> {
        if lenient {
            return if value.is_finite() { Ok(()) } else { Err(Stop::Odd) };
        }
        if !value.is_finite() || (value == 0.0 && !self.is_zero()) {
            return Err(Stop::Misfit);
        }
        if self.is_whole && self.scaled(0, false)?.unsigned_abs() != whole {
            return Err(Stop::Misfit);
        }
        Ok(())
    }

    /// Why it is no whole number of so many bits: in words, and none where only the strict line reader knows.
    pub fn not_whole(&self, bits: u32, column: &str) -> Option<String> {
        match self.scaled(0, true) {
            Ok(value) if value >= -(1 << bits) && value < 1 << bits => {
                Some(format!("has a fraction, the column is {column}"))
            }
            Err(Stop::Odd) => None,
            _ => Some(format!("is too large for {column}")),
        }
    }

    /// The same for a decimal.
    pub fn not_decimal(&self, precision: u8, scale: u8, column: &str) -> Option<String> {
        match self.scaled(i64::from(scale), true) {
            Ok(value) if value.unsigned_abs() < 10u128.pow(u32::from(precision)) => {
                Some(format!("has more than {scale} digits behind the point"))
            }
            Err(Stop::Odd) => None,
            _ => Some(format!("is too large for {column}")),
        }
    }

    /// The same for a float; `nearest` is what it would become.
    pub fn not_float(&self, nearest: f64, column: &str) -> String {
        if !nearest.is_finite() {
            format!("is too large for {column}")
        } else if nearest == 0.0 {
            format!("is too small for {column}, it would become 0")
        } else {
            format!("is a whole number that {column} cannot hold exactly")
        }
    }

    /// A moment that is written as microseconds; whatever is behind the point is cut.
    pub fn microseconds(&self) -> Read<i64> {
        i64::try_from(self.scaled(0, true)?).map_err(|_| Stop::Misfit)
    }
}
