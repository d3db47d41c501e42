//! The elements of a JSON array as lines, for `tidegate.formats.json`.
//!
//! Brackets and commas outside texts decide where an element ends, whatever else is wrong inside it. Line ends inside
//! an element become blanks; inside a text, where JSON does not allow them, carriage returns, which it does not allow
//! either. An element that is not there becomes a line with a comma.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cursor::plain_length;

/// The bytes that matter inside an element, outside texts.
const MATTERS: [bool; 256] = {
    let mut found = [false; 256];
    let bytes = b"{}[]\"\\\n\r";
    let mut place = 0;
    while place < bytes.len() {
        found[bytes[place] as usize] = true;
        place += 1;
    }
    found
};

/// Splits an array chunk by chunk, from behind its opening bracket on.
#[pyclass]
pub struct ArraySplitter {
    /// The depth at which the whole is closed: 0 for an array, 1 for a single object.
    outer: i64,
    depth: i64,
    is_inside: bool,
    is_escaped: bool,
    #[pyo3(get)]
    elements: usize,
    #[pyo3(get)]
    element_is_empty: bool,
}

#[pymethods]
impl ArraySplitter {
    #[new]
    fn new(outer: i64) -> Self {
        ArraySplitter { outer, depth: 1, is_inside: false, is_escaped: false, elements: 0, element_is_empty: true }
    }

    /// The lines that a chunk gives, and the place of the bracket that closes the whole, if it is there.
    fn take<'py>(&mut self, py: Python<'py>, chunk: &[u8]) -> (Bound<'py, PyBytes>, Option<usize>) {
        let mut out = Vec::with_capacity(chunk.len() + 16);
        let end = py.detach(|| self.split(chunk, &mut out));
        (PyBytes::new(py, &out), end)
    }
}

impl ArraySplitter {
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
                at += chunk[at..].iter().take_while(|&&byte| !MATTERS[usize::from(byte)]).count();
            }
        }
        out.extend_from_slice(&chunk[copied..]);
        None
    }
}
