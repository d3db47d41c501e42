//! What the fields of sampled records were seen to be, for `tidegate.schema.inference`.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::cursor::{Cursor, Read, Stop};
use crate::numbers::Number;
use crate::texts;

const MOST_CHARACTERS: usize = 60;

/// Everything one field was seen to be: kinds in the order they came, with their counts and one example each.
#[derive(Default)]
pub struct Seen {
    kinds: Vec<(&'static str, u64, String)>,
    nulls: u64,
    members: Vec<(String, Seen)>,
    index: HashMap<Box<[u8]>, usize>,
    items: Option<Box<Seen>>,
}

impl Seen {
    /// Look into the record on a line, which ends with a line end; false if there is none, and nothing was taken in.
    pub fn add_line(&mut self, line: &[u8], levels: usize, deepest: usize) -> bool {
        let mut cursor = Cursor::new(line, deepest);
        let is_record = cursor.next_byte() == b'{' && cursor.skip(0).is_ok() && cursor.next_byte() == b'\n';
        if !is_record || std::str::from_utf8(line).is_err() {
            return false;
        }
        self.add(&mut Cursor::new(line, deepest), levels).is_ok()
    }

    fn add(&mut self, cursor: &mut Cursor, levels: usize) -> Read<()> {
        let first = cursor.next_byte();
        let kind = match first {
            b'n' => {
                cursor.word(b"null")?;
                self.nulls += 1;
                return Ok(());
            }
            b't' | b'f' => "boolean",
            b'"' => { *cursor }.text_inside(&mut Vec::new()).map(text_kind)?,
            b'{' => "object",
            b'[' => "list",
            _ => number_kind(&{ *cursor }.number()?),
        };
        self.count(kind, cursor)?;
        if levels == 0 || !matches!(first, b'{' | b'[') {
            return cursor.skip(0);
        }
        cursor.at += 1;
        let close = first + 2;
        if cursor.next_byte() == close {
            cursor.at += 1;
            if first == b'[' {
                self.items.get_or_insert_default();
            }
            return Ok(());
        }
        loop {
            if first == b'{' {
                let key = cursor.key()?;
                let mut name = Vec::new();
                cursor.unescape(key, &mut name);
                self.member(&name).add(cursor, levels - 1)?;
            } else {
                self.items.get_or_insert_default().add(cursor, levels - 1)?;
            }
            let next = cursor.next_byte();
            cursor.at += 1;
            match next {
                b',' => {}
                byte if byte == close => return Ok(()),
                _ => return Err(Stop::Odd),
            }
        }
    }

    /// One more value of this kind; the first of each is an example.
    fn count(&mut self, kind: &'static str, cursor: &Cursor) -> Read<()> {
        if let Some(found) = self.kinds.iter_mut().find(|found| found.0 == kind) {
            found.1 += 1;
            return Ok(());
        }
        let mut text = Vec::new();
        { *cursor }.compact(0, &mut text)?;
        self.kinds.push((kind, 1, excerpt(&String::from_utf8_lossy(&text))));
        Ok(())
    }

    fn member(&mut self, name: &[u8]) -> &mut Seen {
        let next = self.members.len();
        let place = *self.index.entry(name.into()).or_insert(next);
        if place == next {
            self.members.push((String::from_utf8_lossy(name).into_owned(), Seen::default()));
        }
        &mut self.members[place].1
    }

    /// The same as `(kinds, nulls, members, items)`.
    pub fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        let members = self.members.into_iter().map(|(name, seen)| Ok((name, seen.into_python(py)?)));
        let members = members.collect::<PyResult<Vec<_>>>()?;
        let items = self.items.map(|items| items.into_python(py)).transpose()?;
        (self.kinds, self.nulls, members, items).into_pyobject(py)
    }
}

/// A text for a message, shortened.
pub fn excerpt(text: &str) -> String {
    if text.chars().count() <= MOST_CHARACTERS {
        return text.to_owned();
    }
    text.chars().take(MOST_CHARACTERS - 1).chain(['…']).collect()
}

/// Whether a text is a moment, as `is_moment` of the inference has it.
fn text_kind(text: &[u8]) -> &'static str {
    let is_common = text.get(16) == Some(&b':') && is_common_end(text.get(19..).unwrap_or_default());
    if is_common && texts::moment(text).is_ok() { "moment" } else { "string" }
}

/// What may follow the seconds: a fraction of at most six digits; `moment` checks the offset behind it.
fn is_common_end(rest: &[u8]) -> bool {
    let digits = rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
    rest.first() != Some(&b'.') || (1..=6).contains(&digits)
}

/// What a number needs of a column, as `number_kind` of the inference has it.
fn number_kind(number: &Number) -> &'static str {
    if !number.is_whole() {
        return if number.float64(false).is_ok() { "number" } else { "inexact number" };
    }
    if number.text.iter().filter(|byte| byte.is_ascii_digit()).count() > 20 {
        return "inexact number";
    }
    match number.int64(false) {
        Err(_) => "large integer",
        Ok(value) if (value as f64) as i128 == i128::from(value) => "integer",
        Ok(_) => "long integer",
    }
}
