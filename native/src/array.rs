//! The elements of a JSON array, for `tidegate.formats.json`: as lines, or read where they lie.
//!
//! Brackets and commas outside texts decide where an element ends, whatever else is wrong inside it. Line ends inside
//! an element become blanks; inside a text, where JSON does not allow them, carriage returns, which it does not allow
//! either. An element that is not there becomes a line with a comma.
//!
//! An element that surely is a record ends where its object does, so that nobody has to look for its end. All others are
//! made lines first, and so are those that may be too long. One that goes on in the next chunk is held as the beginning
//! of its line, so that blanks between elements need no room, and no byte of it is looked at twice for its end.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cursor::plain_length;
use crate::{Found, LineReader};

/// So many odd elements end a part, whatever follows: each of them is an object in Python.
const MOST_ODD: usize = 100_000;

/// What came of a chunk, or of a part of it.
#[derive(Default)]
pub(crate) struct Part {
    pub found: Found,
    /// The odd elements as lines.
    pub lines: Vec<u8>,
    /// How many bytes of the chunk it is; what follows is left to be read.
    pub taken: usize,
    /// The place of the bracket that closes the whole, if it is there.
    pub end: Option<usize>,
}

/// An element: what is known of its line, and the rest with what ends it, and the state in which that begins.
struct Element<'b> {
    known: &'b [u8],
    rest: &'b [u8],
    state: (i64, bool, bool),
}

/// Splits an array chunk by chunk, from behind its opening bracket on.
#[pyclass]
pub struct ArraySplitter {
    /// The depth at which the whole is closed: 0 for an array, 1 for a single object.
    outer: i64,
    depth: i64,
    is_inside: bool,
    is_escaped: bool,
    /// Room for the lines of a chunk, kept for the next one.
    lines: Vec<u8>,
    /// The line of an element that goes on, as far as it is there.
    held: Vec<u8>,
    /// Whether the element behind those that were read is longer than it may be.
    #[pyo3(get)]
    is_too_long: bool,
    #[pyo3(get)]
    elements: usize,
    #[pyo3(get)]
    element_is_empty: bool,
}

#[pymethods]
impl ArraySplitter {
    #[new]
    fn new(outer: i64) -> Self {
        ArraySplitter {
            outer,
            depth: 1,
            is_inside: false,
            is_escaped: false,
            lines: Vec::new(),
            held: Vec::new(),
            is_too_long: false,
            elements: 0,
            element_is_empty: true,
        }
    }

    /// The lines that a chunk gives, and the place of the bracket that closes the whole, if it is there.
    fn take<'py>(&mut self, py: Python<'py>, chunk: &[u8]) -> (Bound<'py, PyBytes>, Option<usize>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        let end = py.detach(|| self.split(chunk, &mut lines));
        self.lines = lines;
        (PyBytes::new(py, &self.lines), end)
    }
}

impl ArraySplitter {
    /// Go over what is inside an element and in this chunk, up to where more has to be decided.
    fn pass_over(&mut self, chunk: &[u8], mut at: usize) -> usize {
        while let Some(&byte) = chunk.get(at) {
            match byte {
                b'"' => match end_of_text(chunk, at + 1) {
                    Some(end) => at = end,
                    None => return at,
                },
                b'{' | b'[' => {
                    self.depth += 1;
                    at += 1;
                }
                b'}' | b']' if self.depth > 2 => {
                    self.depth -= 1;
                    at += 1;
                }
                b'}' | b']' | b'\\' | b'\n' | b'\r' => return at,
                _ => at += 1,
            }
        }
        at
    }

    fn split(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let (mut at, mut copied) = (0, 0);
        while at < chunk.len() {
            let byte = chunk[at];
            let is_plain = std::mem::take(&mut self.is_escaped);
            if !is_plain && matches!(byte, b'\\' | b'"') {
                self.is_escaped = byte == b'\\';
                self.is_inside ^= byte == b'"';
                self.element_is_empty = false;
                at += 1;
                if self.is_inside && !self.is_escaped {
                    at += plain_length(&chunk[at..]);
                }
                continue;
            }
            if self.is_inside {
                at += plain_length(&chunk[at..]).max(1);
                if matches!(byte, b'\n' | b'\r') {
                    out.extend_from_slice(&chunk[copied..at - 1]);
                    out.push(b'\r');
                    copied = at;
                }
                continue;
            }
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth <= self.outer {
                        out.extend_from_slice(&chunk[copied..at + self.outer as usize]);
                        self.element_is_empty &= self.outer == 0;
                        return Some(at);
                    }
                }
                b',' if self.depth == 1 => {
                    out.extend_from_slice(&chunk[copied..at]);
                    if self.element_is_empty {
                        out.push(b',');
                    }
                    out.push(b'\n');
                    self.elements += 1;
                    self.element_is_empty = true;
                    at += 1;
                    copied = at;
                    continue;
                }
                b' ' | b'\t' | b'\r' | b'\n' if self.depth == 1 => {
                    out.extend_from_slice(&chunk[copied..at]);
                    at += 1;
                    copied = at;
                    continue;
                }
                b'\r' | b'\n' => {
                    out.extend_from_slice(&chunk[copied..at]);
                    out.push(b' ');
                    copied = at + 1;
                }
                _ => {}
            }
            self.element_is_empty = false;
            at += 1;
            if self.depth > 1 {
                at = self.pass_over(chunk, at);
            }
        }
        out.extend_from_slice(&chunk[copied..]);
        None
    }
}

impl ArraySplitter {
    /// How many bytes are held of an element that goes on.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Read the elements that end in a chunk, and are no longer than `longest`.
    pub(crate) fn read(&mut self, chunk: &[u8], longest: usize, reader: &mut LineReader) -> Part {
        let before = self.held.len();
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend(chunk.iter().map(|&byte| if byte == b'\n' { b'\r' } else { byte }));
        bytes.push(b'\n');
        let mut part = Part { taken: chunk.len(), ..Part::default() };
        let (mut start, mut text_end, mut looked_at) = (0, text_length(&bytes), before);
        let mut cursor = reader.cursor(&bytes);
        loop {
            let state = (self.depth, self.is_inside, self.is_escaped);
            let known = if looked_at > start { self.find_end(&bytes, looked_at) } else { None };
            if start > text_end {
                text_end = start + text_length(&bytes[start..]);
            }
            cursor.at = start;
            let is_open = looked_at > start && known.is_none();
            let may_be_read = self.outer == 0 && !is_open && bytes.len() - start <= longest;
            let place = if may_be_read && reader.records.read_element(&mut cursor, text_end) {
                part.found.add_record();
                cursor.at
            } else {
                let place = if is_open { None } else { known.or_else(|| self.find_end(&bytes, start)) };
                let Some(place) = place else {
                    (self.depth, self.is_inside, self.is_escaped) = state;
                    let (kept, from) = if start == 0 { (before, 0) } else { (0, start - before) };
                    bytes.truncate(kept);
                    self.split(&chunk[from..], &mut bytes);
                    self.is_too_long = bytes.len() > longest;
                    self.held = bytes;
                    break;
                };
                let known = looked_at.max(start);
                let element = Element { known: &bytes[start..known], rest: &bytes[known..=place], state };
                self.is_too_long = !self.read_as_line(element, longest, reader, &mut part);
                if self.is_too_long {
                    break;
                }
                place
            };
            if bytes[place] != b',' {
                part.end = Some(place - before);
                break;
            }
            (start, looked_at) = (place + 1, 0);
            self.elements += 1;
            if part.found.odd.len() >= MOST_ODD {
                part.taken = start - before;
                break;
            }
        }
        self.element_is_empty = false; // nothing is left to be told at the end
        part
    }

    /// Where the element ends that is looked at up to here: at a comma, or at the bracket that closes the whole.
    fn find_end(&mut self, bytes: &[u8], mut at: usize) -> Option<usize> {
        while at < bytes.len() - 1 {
            let is_escaped = std::mem::take(&mut self.is_escaped);
            let byte = bytes[at];
            match byte {
                b'\\' if !is_escaped => self.is_escaped = true,
                b'"' if !is_escaped => self.is_inside ^= true,
                _ if self.is_inside => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
            let is_closed = matches!(byte, b'}' | b']') && self.depth <= self.outer;
            if !self.is_inside && (is_closed || (byte == b',' && self.depth == 1)) {
                self.depth = 1;
                return Some(at);
            }
            at += 1;
            if self.is_inside && !self.is_escaped {
                at += plain_length(&bytes[at..]);
            }
        }
        None
    }

    /// Read an element, unless it is too long; one that is not there is none where it is the only one.
    fn read_as_line(&self, element: Element, longest: usize, reader: &mut LineReader, part: &mut Part) -> bool {
        let (found, lines) = (&mut part.found, &mut part.lines);
        let start = lines.len();
        lines.extend_from_slice(element.known);
        let mut splitter =
            ArraySplitter { element_is_empty: element.known.is_empty(), ..ArraySplitter::new(self.outer) };
        (splitter.depth, splitter.is_inside, splitter.is_escaped) = element.state;
        splitter.split(element.rest, lines);
        if lines.len() == start {
            if self.elements == 0 {
                return true;
            }
            lines.push(b',');
        }
        if !lines.ends_with(b"\n") {
            lines.push(b'\n');
        }
        if lines.len() - start - 1 > longest {
            return false;
        }
        let is_text = std::str::from_utf8(&lines[start..]).is_ok();
        reader.read_line(&mut reader.cursor(lines).moved_to(start), is_text, found);
        true
    }
}

/// How many bytes of these are text, from the first on.
fn text_length(bytes: &[u8]) -> usize {
    std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len)
}

/// Where a text ends whose first character stands here; none where the chunk ends first, or a line in it does.
fn end_of_text(chunk: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += plain_length(chunk.get(at..)?);
        match chunk.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' if matches!(chunk.get(at + 1), Some(b'\n' | b'\r')) => return None,
            b'\\' => at += 2,
            b'\n' | b'\r' => return None,
            _ => at += 1,
        }
    }
}
