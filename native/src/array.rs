//! The elements of a JSON array as lines, for `tidegate.formats.json`.
//!
//! Brackets and commas outside texts decide where an element ends, whatever else is wrong inside it. Line ends inside
//! an element become blanks; inside a text, where JSON does not allow them, carriage returns, which it does not allow
//! either. An element that is not there becomes a line with a comma.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cursor::plain_length;

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
