//! What fits no column: it is left out and counted, rescued, or the reason why a line is no record.
//!
//! A line that was not read although it is a JSON object is read once more, and this time whatever does not fit says why,
//! in the words of the strict line reader. What is said first counts, unless the value is rescued. Names that Python would
//! write with escapes, and numbers without bounds, are left to that reader.

use std::collections::HashMap;

use crate::columns::{Column, Data, Tally};
use crate::cursor::{Cursor, Read, Stop, quote};
use crate::numbers::Number;
use crate::reasons::kind;
use crate::sample::excerpt;

/// How exactly a record has to fit, as the rules of the strict line reader say.
pub struct Options {
    pub lenient: bool,
    pub coerce: bool,
    pub rescues: bool,
}

/// What is known of the record under way beside its columns.
pub struct Context {
    pub options: Options,
    pub tally: Tally,
    /// What fits no column: a JSON object for each record that has something left, the last one under way.
    pub left: Vec<u8>,
    left_before: usize,
    /// Where the value under way stands; kept only if values are rescued, or the reason of a misfit is wanted.
    pub path: Vec<u8>,
    pub key: Vec<u8>,
    pub reason: Reason,
}

impl Context {
    pub fn new(options: Options) -> Self {
        let (left, path, key) = Default::default();
        Context { options, tally: Tally::default(), left, left_before: 0, path, key, reason: Reason::default() }
    }

    pub fn keeps_path(&self) -> bool {
        self.options.rescues || self.reason.is_wanted
    }

    /// Say why something at `name`, below where the value under way stands, is no part of a record.
    pub fn say(&mut self, name: &[u8], words: impl FnOnce(String) -> Option<String>) {
        let before = self.descend(name);
        self.reason.say(&self.path, words);
        self.path.truncate(before);
    }

    /// End a record; what was left of it is kept only if it was one.
    pub fn end_record(&mut self, is_good: bool) {
        self.tally.end_record(is_good);
        self.path.clear();
        if !is_good {
            self.left.truncate(self.left_before);
        }
        self.left_before = self.left.len();
    }

    pub fn has_left(&self) -> bool {
        self.left.len() > self.left_before
    }

    /// Begin the next member of what is left of the record under way.
    pub fn next_left(&mut self) -> &mut Vec<u8> {
        self.left.push(if self.has_left() { b',' } else { b'{' });
        &mut self.left
    }

    pub fn leave(&mut self, cursor: &mut Cursor, depth: usize) -> Read<()> {
        self.next_left();
        quote(&self.path, &mut self.left);
        self.left.push(b':');
        cursor.compact(depth, &mut self.left)
    }

    /// Give all that was left to its column, or take the room for more of it back.
    pub fn swap_left(&mut self, column: &mut Column) {
        if let Data::Text(data) = &mut column.data {
            std::mem::swap(&mut self.left, &mut data.data);
        }
        self.left_before = self.left.len();
    }

    /// Leave the value of a column that it does not fit; it counts as one of an undeclared field does.
    pub fn rescue(&mut self, cursor: &mut Cursor, name: &Option<String>, depth: usize) -> Read<()> {
        self.reason.forget();
        let before = self.path.len();
        self.descend_to(name);
        self.leave(cursor, depth)?;
        let id = self.tally.id(without_indices(&self.path));
        self.tally.add(id);
        self.path.truncate(before);
        Ok(())
    }

    /// Go on to a column; the items of a list and the values of a map are there already.
    pub fn descend_to(&mut self, name: &Option<String>) -> usize {
        name.as_ref().map_or(self.path.len(), |name| self.descend(name.as_bytes()))
    }

    /// Go on to an item of a list.
    pub fn descend_to_item(&mut self, number: usize) {
        if !self.keeps_path() {
            return;
        }
        self.path.push(b'[');
        match u8::try_from(number) {
            Ok(digit @ ..10) => self.path.push(b'0' + digit),
            _ => self.path.extend_from_slice(number.to_string().as_bytes()),
        }
        self.path.push(b']');
    }

    /// Go on to a field of a struct or a value of a map; how long the path was before.
    pub fn descend(&mut self, name: &[u8]) -> usize {
        let before = self.path.len();
        if self.keeps_path() {
            if before > 0 {
                self.path.push(b'.');
            }
            self.path.extend_from_slice(name);
        }
        before
    }
}

/// A path with `[]` for every `[7]`.
fn without_indices(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    let mut out = String::with_capacity(path.len());
    let mut rest = &*path;
    while let Some(place) = rest.find('[') {
        let (before, behind) = rest.split_at(place + 1);
        out.push_str(before);
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        rest = if digits > 0 && behind[digits..].starts_with(']') { &behind[digits..] } else { behind };
    }
    out + rest
}

/// What is said while a line is read: nothing of one that is read for the first time.
#[derive(Default)]
pub struct Reason {
    pub is_wanted: bool,
    /// Empty where it is for the strict line reader to say.
    said: Option<String>,
}

impl Reason {
    /// Say something about what stands at `path`, where nothing is said yet.
    pub fn say(&mut self, path: &[u8], words: impl FnOnce(String) -> Option<String>) {
        if self.is_wanted && self.said.is_none() {
            self.said = Some(quoted(path).and_then(words).unwrap_or_default());
        }
    }

    pub fn forget(&mut self) {
        self.said = None;
    }

    pub fn take(&mut self) -> Option<String> {
        self.is_wanted = false;
        self.said.take().filter(|words| !words.is_empty())
    }
}

/// A path in quotes, where it has nothing that Python would escape.
fn quoted(path: &[u8]) -> Option<String> {
    let is_plain = path.iter().all(|&byte| matches!(byte, b' '..=b'~') && byte != b'\'' && byte != b'\\');
    is_plain.then(|| format!("'{}'", String::from_utf8_lossy(path)))
}

/// Why the value here does not fit a column, of which `path` is told; none where only the strict line reader knows.
pub fn misfit(mut cursor: Cursor, column: &Column, lenient: bool, path: &str) -> Option<String> {
    let first = cursor.next_byte();
    let mut text = Vec::new();
    { cursor }.compact(0, &mut text).ok()?;
    let value = excerpt(&String::from_utf8_lossy(&text));
    let does_not_fit = |column: &str| Some(format!("{path}: {} ({value}) does not fit {column}", kind(first)));
    let is = |words: String| Some(format!("{path}: {value} {words}"));
    let mut plain = Vec::new();
    let number = match first {
        b'"' => Number::whole(cursor.text_inside(&mut plain).ok()?),
        b'-' | b'0'..=b'9' => cursor.number().ok(),
        _ => None,
    };
    let number = number.filter(|_| first != b'"' || lenient || matches!(column.data, Data::Decimal { .. }));
    match (&column.data, number) {
        (Data::Boolean(_), _) => does_not_fit("a boolean"),
        (Data::Int32(_), Some(number)) => is(number.not_whole(31, "int32")?),
        (Data::Int32(_), None) => does_not_fit("int32"),
        (Data::Int64(_), Some(number)) => is(number.not_whole(63, "int64")?),
        (Data::Int64(_), None) => does_not_fit("int64"),
        (Data::Float32(_), Some(number)) => is(number.not_float(number.nearest::<f32>().ok()?.into(), "float32")),
        (Data::Float32(_), None) => does_not_fit("float32"),
        (Data::Float64(_), Some(number)) => is(number.not_float(number.nearest().ok()?, "float64")),
        (Data::Float64(_), None) => does_not_fit("float64"),
        (&Data::Decimal { precision, scale, .. }, number) => {
            let column = format!("decimal({precision},{scale})");
            match number {
                Some(number) => is(number.not_decimal(precision, scale, &column)?),
                None => does_not_fit(&column),
            }
        }
        (Data::Moment(_), _) if first == b'"' => {
            is("is not an ISO 8601 moment of at most microseconds, in the years 1 to 9999".to_owned())
        }
        (Data::Moment(_), Some(_)) if lenient => is("lies outside the years 1 to 9999".to_owned()),
        (Data::Moment(_), _) => does_not_fit("a timestamp column"),
        (Data::Date(_), _) if first == b'"' => is("is not a date YYYY-MM-DD".to_owned()),
        (Data::Date(_), _) => does_not_fit("a date column"),
        (Data::Text(_), _) => does_not_fit("a string column"),
        (Data::Binary(_), _) => does_not_fit("a binary column"),
        (Data::Struct(_), _) => does_not_fit("a struct"),
        (Data::List { .. }, _) => does_not_fit("a list"),
        (Data::Map { .. }, _) => does_not_fit("a map"),
        (Data::Json(_), _) => None,
    }
}

/// The first key of the object that begins here and does so again.
pub fn repeated_key(cursor: Cursor) -> Read<Option<Vec<u8>>> {
    let mut keys = Vec::new();
    let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
    each_pair(cursor, |key, _| {
        *counts.entry(key.clone()).or_default() += 1;
        keys.push(key);
    })?;
    Ok(keys.into_iter().find(|key| counts[key] > 1))
}

/// Go over the pairs of the object that begins here: each key, and whether its value is null.
pub fn each_pair(mut cursor: Cursor, mut see: impl FnMut(Vec<u8>, bool)) -> Read<()> {
    cursor.expect(b'{')?;
    if cursor.next_byte() == b'}' {
        return Ok(());
    }
    loop {
        let found = cursor.key()?;
        let mut key = Vec::new();
        cursor.unescape(found, &mut key);
        see(key, cursor.next_byte() == b'n');
        cursor.skip(0)?;
        match cursor.next_byte() {
            b',' => cursor.at += 1,
            b'}' => return Ok(()),
            _ => return Err(Stop::Odd),
        }
    }
}
