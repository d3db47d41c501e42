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
        let mut at = 0;
        while at < chunk.len() {
            let byte = chunk[at];
            let is_plain = std::mem::take(&mut self.is_escaped);
            if !is_plain && matches!(byte, b'\\' | b'"') {
                self.is_escaped = byte == b'\\';
                self.is_inside ^= byte == b'"';
                self.add(byte, out);
            } else if self.is_inside {
                let length = plain_length(&chunk[at..]).max(1);
                out.extend_from_slice(&chunk[at..at + length]);
                if let Some(last) = out.last_mut() {
                    *last = as_blank(*last, true);
                }
                at += length;
                continue;
            } else if self.take_outside(byte, out) {
                return Some(at);
            }
            at += 1;
        }
        None
    }

    /// Take a byte outside texts in; true if it closes the whole.
    #[inline(always)]
    fn take_outside(&mut self, byte: u8, out: &mut Vec<u8>) -> bool {
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth <= self.outer {
                    if self.outer == 1 {
                        self.add(byte, out);
                    }
                    return true;
                }
            }
            b',' if self.depth == 1 => {
                if self.element_is_empty {
                    out.push(b',');
                }
                out.push(b'\n');
                self.elements += 1;
                self.element_is_empty = true;
                return false;
            }
            b' ' | b'\t' | b'\r' | b'\n' if self.depth == 1 => return false,
            _ => {}
        }
        self.add(as_blank(byte, false), out);
        false
    }

    #[inline(always)]
    fn add(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.element_is_empty = false;
        out.push(byte);
    }
}

/// The byte, and for a line end what stands for it.
fn as_blank(byte: u8, is_inside: bool) -> u8 {
    match byte {
        b'\n' | b'\r' if is_inside => b'\r',
        b'\n' | b'\r' => b' ',
        _ => byte,
    }
}
