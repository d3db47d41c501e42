//! The grammar of RFC 8259, byte by byte: texts, numbers and whole values, with nothing forgiven.
//!
//! A cursor stands in a block of lines. It never passes a line end, which no JSON token of one line may hold, so
//! every loop ends there at the latest. What is not JSON is [`Stop::Odd`]; it is for others to say why.

use crate::numbers::Number;

/// Why a value was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// JSON, but nothing for its column.
    Misfit,
    /// Not JSON, or something that only the strict line reader decides.
    Odd,
}

pub type Read<T> = Result<T, Stop>;

/// A text between its quotes.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    pub start: usize,
    pub end: usize,
    pub is_escaped: bool,
}

#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
    deepest: usize,
}

pub const ONES: u64 = 0x0101_0101_0101_0101;
pub const HIGHS: u64 = 0x8080_8080_8080_8080;

/// A word whose lowest high bit marks the first quote, backslash or control character.
fn ends_of_plain_text(word: u64) -> u64 {
    let quote = word ^ (ONES * u64::from(b'"'));
    let slash = word ^ (ONES * u64::from(b'\\'));
    let found = (quote.wrapping_sub(ONES) & !quote)
        | (slash.wrapping_sub(ONES) & !slash)
        | (word.wrapping_sub(ONES * 0x20) & !word);
    found & HIGHS
}

/// How many bytes come before the first quote, backslash or control character.
pub fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let found = ends_of_plain_text(u64::from_le_bytes(*word));
        if found != 0 {
            return number * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_end = |&byte: &u8| byte == b'"' || byte == b'\\' || byte < 0x20;
    words.len() * 8 + rest.iter().position(is_end).unwrap_or(rest.len())
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning of `bytes`, which end with a line end.
    pub fn new(bytes: &'a [u8], deepest: usize) -> Self {
        Cursor { bytes, at: 0, deepest }
    }

    /// A cursor at another place of the same line.
    pub fn moved_to(&self, at: usize) -> Self {
        Cursor { at, ..*self }
    }

    #[inline(always)]
    pub fn byte(&self) -> u8 {
        self.bytes[self.at]
    }

    /// The next byte that is not blank.
    #[inline(always)]
    pub fn next_byte(&mut self) -> u8 {
        while matches!(self.bytes[self.at], b' ' | b'\t' | b'\r') {
            self.at += 1;
        }
        self.bytes[self.at]
    }

    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Read<()> {
        if self.next_byte() != byte {
            return Err(Stop::Odd);
        }
        self.at += 1;
        Ok(())
    }

    /// Go to the end of the line, from anywhere in it.
    pub fn go_to_line_end(&mut self) {
        while self.bytes[self.at] != b'\n' {
            self.at += 1;
        }
    }

    pub fn check_depth(&self, depth: usize) -> Read<()> {
        if depth > self.deepest { Err(Stop::Odd) } else { Ok(()) }
    }

    pub fn word(&mut self, word: &'static [u8]) -> Read<()> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(Stop::Odd);
        }
        self.at += word.len();
        Ok(())
    }

    /// The text whose opening quote is the next byte.
    #[inline(always)]
    pub fn text(&mut self) -> Read<Text> {
        self.at += 1;
        let start = self.at;
        let mut is_escaped = false;
        loop {
            while let Some(chunk) = self.bytes[self.at..].first_chunk::<8>() {
                let found = ends_of_plain_text(u64::from_le_bytes(*chunk));
                if found != 0 {
                    self.at += found.trailing_zeros() as usize / 8;
                    break;
                }
                self.at += 8;
            }
            match self.bytes[self.at] {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    self.escape()?;
                }
                ..0x20 => return Err(Stop::Odd),
                _ => self.at += 1,
            }
        }
        let end = self.at;
        self.at += 1;
        Ok(Text { start, end, is_escaped })
    }

    /// What the text here says; `plain` is room for one with escapes.
    pub fn text_inside<'t>(&mut self, plain: &'t mut Vec<u8>) -> Read<&'t [u8]>
    where
        'a: 't,
    {
        let text = self.text()?;
        if !text.is_escaped {
            return Ok(self.raw(text));
        }
        plain.clear();
        self.unescape(text, plain);
        Ok(plain)
    }

    fn escape(&mut self) -> Read<()> {
        match self.bytes[self.at + 1] {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
            b'u' => {
                let (_, length) = unicode_escape(&self.bytes[self.at..]).ok_or(Stop::Odd)?;
                self.at += length;
            }
            _ => return Err(Stop::Odd),
        }
        Ok(())
    }

    #[inline(always)]
    pub fn number(&mut self) -> Read<Number<'a>> {
        let found = Number::begin(&self.bytes[self.at..]).ok_or(Stop::Odd)?;
        self.at += found.text.len();
        Ok(found)
    }

    /// Pass over a value at `depth`, which is that of what it stands in.
    pub fn skip(&mut self, depth: usize) -> Read<()> {
        self.walk(depth, &mut ())
    }

    /// Write the value here, at `depth`, without blanks and with every text escaped in one way; numbers as written.
    pub fn compact(&mut self, depth: usize, out: &mut Vec<u8>) -> Read<()> {
        self.compact_from(self.at, depth, out)
    }

    /// Write a key without escapes, and so the value behind it, which is here.
    pub fn compact_pair(&mut self, key: Text, depth: usize, out: &mut Vec<u8>) -> Read<()> {
        let (start, end) = (key.start - 1, key.end + 1);
        if end + 1 == self.at {
            return self.compact_from(start, depth, out); // nothing but the colon lies in between
        }
        out.extend_from_slice(&self.bytes[start..end]);
        out.push(b':');
        self.compact(depth, out)
    }

    /// The same for a value, with what lies before it from `start` on.
    fn compact_from(&mut self, start: usize, depth: usize, out: &mut Vec<u8>) -> Read<()> {
        let mut output = Compact { out, start, end: self.at };
        self.walk(depth, &mut output)?;
        output.copy(self.bytes);
        Ok(())
    }

    fn walk(&mut self, depth: usize, out: &mut impl Output) -> Read<()> {
        let mut kinds: Vec<u8> = Vec::new();
        loop {
            let mut opened = false;
            let first = self.next_byte();
            let start = self.at;
            match first {
                b'{' | b'[' => {
                    self.at += 1;
                    kinds.push(first + 2);
                    self.check_depth(depth + kinds.len())?;
                    opened = true;
                }
                b'"' => {
                    let text = self.text()?;
                    out.add_text(self.bytes, text);
                }
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => {
                    self.number()?;
                }
            }
            if first != b'"' {
                out.add(self.bytes, start, self.at);
            }
            loop {
                let Some(&close) = kinds.last() else { return Ok(()) };
                let is_closed = self.next_byte() == close;
                if is_closed || !opened {
                    self.expect(if is_closed { close } else { b',' })?;
                    out.add(self.bytes, self.at - 1, self.at);
                }
                if is_closed {
                    kinds.pop();
                    opened = false;
                    continue;
                }
                if close == b'}' {
                    let key = self.key()?;
                    out.add_text(self.bytes, key);
                    out.add(self.bytes, self.at - 1, self.at);
                }
                break;
            }
        }
    }

    /// A key with the colon behind it.
    #[inline(always)]
    pub fn key(&mut self) -> Read<Text> {
        if self.next_byte() != b'"' {
            return Err(Stop::Odd);
        }
        let key = self.text()?;
        self.expect(b':')?;
        Ok(key)
    }

    pub fn raw(&self, text: Text) -> &'a [u8] {
        &self.bytes[text.start..text.end]
    }

    /// Append what a text says.
    #[inline(always)]
    pub fn unescape(&self, text: Text, out: &mut Vec<u8>) {
        let mut raw = self.raw(text);
        if text.is_escaped {
            while let Some(place) = raw.iter().position(|&byte| byte == b'\\') {
                out.extend_from_slice(&raw[..place]);
                raw = append_escape(&raw[place..], out);
            }
        }
        out.extend_from_slice(raw);
    }
}

/// Where a value goes while it is passed over: nowhere, or into compact JSON.
trait Output {
    /// Take what stands from `start` to before `end`.
    fn add(&mut self, bytes: &[u8], start: usize, end: usize);
    fn add_text(&mut self, bytes: &[u8], text: Text);
}

impl Output for () {
    #[inline(always)]
    fn add(&mut self, _: &[u8], _: usize, _: usize) {}

    #[inline(always)]
    fn add_text(&mut self, _: &[u8], _: Text) {}
}

/// Compact JSON. What lies from `start` to before `end` is still to be copied: all that needs no change, at once.
struct Compact<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    end: usize,
}

impl Compact<'_> {
    fn copy(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(&bytes[self.start..self.end]);
    }
}

impl Output for Compact<'_> {
    #[inline(always)]
    fn add(&mut self, bytes: &[u8], start: usize, end: usize) {
        if start != self.end {
            self.copy(bytes);
            self.start = start;
        }
        self.end = end;
    }

    #[inline(always)]
    fn add_text(&mut self, bytes: &[u8], text: Text) {
        if !text.is_escaped {
            return self.add(bytes, text.start - 1, text.end + 1);
        }
        self.copy(bytes);
        rewrite(&bytes[text.start..text.end], self.out);
        (self.start, self.end) = (text.end + 1, text.end + 1);
    }
}

/// Write a text with escapes, which was checked, in quotes, with those alone that it needs.
fn rewrite(mut raw: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    loop {
        let length = plain_length(raw);
        out.extend_from_slice(&raw[..length]);
        raw = &raw[length..];
        raw = match raw.get(1) {
            None => break,
            Some(b'/') => {
                out.push(b'/');
                &raw[2..]
            }
            Some(b'u') => {
                let mut plain = [0; 4];
                let (found, length) = unicode_escape(raw).expect("the text was checked when it was read");
                escape(found.encode_utf8(&mut plain).as_bytes(), out);
                &raw[length..]
            }
            Some(_) => {
                out.extend_from_slice(&raw[..2]);
                &raw[2..]
            }
        };
    }
    out.push(b'"');
}

/// Write a text in quotes; what need not be escaped is not.
pub fn quote(plain: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    escape(plain, out);
    out.push(b'"');
}

fn escape(mut plain: &[u8], out: &mut Vec<u8>) {
    loop {
        let (before, rest) = plain.split_at(plain_length(plain));
        out.extend_from_slice(before);
        let Some((&byte, rest)) = rest.split_first() else { return };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        plain = rest;
    }
}

/// The character of a `\u` escape, or of two that are a surrogate pair, and how long that is; none for half a pair.
pub fn unicode_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let first = code_unit(bytes)?;
    if let Some(found) = char::from_u32(first) {
        return Some((found, 6));
    }
    let second = code_unit(bytes.get(6..)?)?;
    if first >= 0xdc00 || !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    Some((char::from_u32(code)?, 12))
}

fn code_unit(bytes: &[u8]) -> Option<u32> {
    let [b'\\', b'u', digits @ ..] = bytes.first_chunk::<6>()? else { return None };
    digits.iter().try_fold(0, |code, &digit| Some(code * 16 + char::from(digit).to_digit(16)?))
}

/// Append the character of the valid escape that `raw` begins with; what follows it.
fn append_escape<'r>(raw: &'r [u8], out: &mut Vec<u8>) -> &'r [u8] {
    let plain = match raw[1] {
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let (found, length) = unicode_escape(raw).expect("the text was checked when it was read");
            out.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
            return &raw[length..];
        }
        itself => itself,
    };
    out.push(plain);
    &raw[2..]
}
