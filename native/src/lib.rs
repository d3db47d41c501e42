//! Lines of JSON to Arrow columns, for `tidegate.formats.json`.
//!
//! A line is read here if it surely is a record of the schema. Every other one, bad or only odd, is handed back, with the
//! reason if that is known. Else the strict line reader of Tidegate reads it, and says why it is no record.

mod array;
mod avro;
mod columns;
mod cursor;
mod misfits;
mod names;
mod numbers;
mod reasons;
mod record;
mod sample;
mod texts;

use std::ffi::c_int;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use array::ArraySplitter;
use columns::{Bytes, Column, Data, Finished, Struct};
use cursor::Cursor;
use misfits::{Context, Options};
use names::{Names, Slot};
use reasons::Verdict;
use record::{Line, Records};
use sample::Seen;

/// Reads blocks of lines into the declared columns.
#[pyclass]
struct LineReader {
    records: Records,
    rescued_place: usize,
    deepest: usize,
    names_commas: bool,
}

/// What was found in a block, beside its columns.
#[derive(Default)]
struct Found {
    lines: usize,
    /// The line of each record.
    places: Vec<i64>,
    /// Number, start and end, without blanks around it, of each line that was not read, and why, where that is known.
    odd: Vec<(usize, usize, usize, Option<String>)>,
}

impl Found {
    fn add_record(&mut self) {
        self.places.push(self.lines as i64);
        self.lines += 1;
    }
}

#[pymethods]
impl LineReader {
    #[new]
    #[pyo3(signature = (fields, *, lenient, coerce, rescued, forbidden, filled, deepest))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        fields: Vec<Bound<'_, PyAny>>,
        lenient: bool,
        coerce: bool,
        rescued: Option<String>,
        forbidden: Vec<String>,
        filled: Vec<String>,
        deepest: usize,
    ) -> PyResult<Self> {
        let mut root = struct_of(&fields, String::new())?;
        let is_rescued = |column: &Column| rescued.is_some() && column.name == rescued;
        let rescued_place = root.children.iter().position(is_rescued);
        let rescued = rescued_place.map(|place| root.children.remove(place));
        root.names = Names::new(String::new());
        for (number, child) in root.children.iter().enumerate() {
            let name = child.name.as_deref().unwrap_or_default();
            root.names.insert(name.as_bytes(), Slot::Field(number as u32));
        }
        root.required = required(&root.children);
        for name in &forbidden {
            root.names.insert(name.as_bytes(), Slot::Forbidden);
        }
        let place_of = |name: &String| root.children.iter().position(|column| column.name.as_ref() == Some(name));
        let filled = filled.iter().filter_map(place_of).collect();
        let options = Options { lenient, coerce, rescues: rescued.is_some() };
        let records = Records { root, rescued, filled, forbidden, context: Context::new(options), rows: 0 };
        let names_commas = py.version_info() >= (3, 13);
        Ok(LineReader { records, rescued_place: rescued_place.unwrap_or_default(), deepest, names_commas })
    }

    /// The records of a block, which ends with a line end: `(lines, rows, columns, places, odd, unknown)`.
    ///
    /// `places` has the line of each record, or is None where record `n` is line `n`.
    fn read<'py>(&mut self, py: Python<'py>, block: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
        if !(block.is_empty() || block.ends_with(b"\n")) || i32::try_from(block.len()).is_err() {
            return Err(PyValueError::new_err("a block ends with a line end and has less than 2 GiB"));
        }
        let (found, columns) = py.detach(|| {
            let found = self.read_lines(block);
            (found, self.finish())
        });
        self.block(py, found, columns)
    }

    /// The elements of an array that end in a chunk, up to one that is longer than `longest`: a block as above, the lines
    /// of its odd ones, how many bytes of the chunk that is (it stops at very many odd ones), and the place of the bracket
    /// that closes the array, if it is there.
    fn read_elements<'py>(
        &mut self,
        py: Python<'py>,
        splitter: &Bound<'py, ArraySplitter>,
        chunk: &[u8],
        longest: usize,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let splitter = &mut *splitter.try_borrow_mut()?;
        if i32::try_from(splitter.held() + chunk.len()).is_err() {
            return Err(PyValueError::new_err("a chunk and what is held have less than 2 GiB"));
        }
        let (part, columns) = py.detach(|| {
            let part = splitter.read(chunk, longest, self);
            (part, self.finish())
        });
        (self.block(py, part.found, columns)?, PyBytes::new(py, &part.lines), part.taken, part.end).into_pyobject(py)
    }
}

impl LineReader {
    fn block<'py>(&mut self, py: Python<'py>, found: Found, columns: Vec<Finished>) -> PyResult<Bound<'py, PyTuple>> {
        let columns = columns.into_iter().map(|column| to_python(py, column)).collect::<PyResult<Vec<_>>>()?;
        let rows = found.places.len();
        let places = (rows < found.lines).then(|| {
            let bytes: Vec<u8> = found.places.iter().flat_map(|place| place.to_le_bytes()).collect();
            PyBytes::new(py, &bytes)
        });
        let unknown = self.records.context.tally.take();
        (found.lines, rows, columns, places, found.odd, unknown).into_pyobject(py)
    }

    fn cursor<'b>(&self, bytes: &'b [u8]) -> Cursor<'b> {
        Cursor::new(bytes, self.deepest)
    }

    fn read_lines(&mut self, block: &[u8]) -> Found {
        let is_text = std::str::from_utf8(block).is_ok();
        let mut found = Found::default();
        let mut cursor = self.cursor(block);
        while cursor.at < block.len() {
            let is_text = is_text || is_text_line(cursor);
            self.read_line(&mut cursor, is_text, &mut found);
        }
        found
    }

    /// Read the line at the cursor, and go behind it.
    fn read_line(&mut self, cursor: &mut Cursor, is_text: bool, found: &mut Found) {
        let start = cursor.at;
        let line = if is_text {
            self.records.read_line(cursor)
        } else {
            cursor.go_to_line_end();
            cursor.at += 1;
            Line::Odd
        };
        match line {
            Line::Record => return found.add_record(),
            Line::Odd => {
                let (start, end) = without_blanks(cursor.bytes, start, cursor.at - 1);
                let reason = if is_text { self.reason(cursor, start, end) } else { None };
                found.odd.push((found.lines, start, end, reason));
            }
            Line::Blank => {}
        }
        found.lines += 1;
    }

    /// Why a line is no record, where that is known.
    fn reason(&mut self, cursor: &Cursor, start: usize, end: usize) -> Option<String> {
        match reasons::judge(&cursor.bytes[start..end], self.deepest, self.names_commas) {
            Verdict::Object => self.records.why_not(cursor.moved_to(start)),
            Verdict::Other(reason) => Some(reason),
            Verdict::Open => None,
        }
    }

    fn finish(&mut self) -> Vec<Finished> {
        let records = &mut self.records;
        let rows = std::mem::take(&mut records.rows);
        let mut columns: Vec<_> = records.root.children.iter_mut().map(|column| column.finish(rows)).collect();
        if let Some(rescued) = &mut records.rescued {
            records.context.swap_left(rescued);
            columns.insert(self.rescued_place, rescued.finish(rows));
            records.context.swap_left(rescued);
        }
        columns
    }
}

fn without_blanks(block: &[u8], mut start: usize, mut end: usize) -> (usize, usize) {
    let is_blank = |place: usize| matches!(block[place], b' ' | b'\t' | b'\r');
    while start < end && is_blank(start) {
        start += 1;
    }
    while start < end && is_blank(end - 1) {
        end -= 1;
    }
    (start, end)
}

fn is_text_line(cursor: Cursor) -> bool {
    let mut end = cursor;
    end.go_to_line_end();
    std::str::from_utf8(&cursor.bytes[cursor.at..end.at]).is_ok()
}

/// Bytes that Python reads where they lie.
#[pyclass(frozen)]
struct Buffer(Vec<u8>);

#[pymethods]
impl Buffer {
    /// Lend the bytes, read-only.
    ///
    /// # Safety
    ///
    /// Python calls this with a view to be filled. The view has a reference to this object from then on, so the bytes are
    /// not freed before it is released; and nothing changes or moves them, as the class is frozen and has no other method.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = &slf.get().0;
        let length = ffi::Py_ssize_t::try_from(bytes.len())?;
        // SAFETY: as above; the last but one argument says that nothing may be written
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), bytes.as_ptr().cast_mut().cast(), length, 1, flags) }
        {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}

/// A column as `(length, nulls, buffers, children)`.
fn to_python(py: Python<'_>, column: Finished) -> PyResult<Bound<'_, PyTuple>> {
    let buffers = column.buffers.into_iter().map(|buffer| buffer.map(Buffer));
    let buffers = PyList::new(py, buffers.map(|buffer| buffer.into_pyobject(py)).collect::<PyResult<Vec<_>>>()?)?;
    let children = column.children.into_iter().map(|child| to_python(py, child)).collect::<PyResult<Vec<_>>>()?;
    (column.length, column.nulls, buffers, children).into_pyobject(py)
}

/// A struct of the declared fields; `place` is where it stands, with a dot behind each name.
fn struct_of(fields: &[Bound<'_, PyAny>], place: String) -> PyResult<Struct> {
    let children = fields.iter().map(|field| column_of(field, &place, true)).collect::<PyResult<Vec<_>>>()?;
    let mut names = Names::new(place);
    for (number, child) in children.iter().enumerate() {
        names.insert(child.name.as_deref().unwrap_or_default().as_bytes(), Slot::Field(number as u32));
    }
    Ok(Struct { required: required(&children), children, names })
}

fn required(children: &[Column]) -> Vec<usize> {
    (0..children.len()).filter(|&number| !children[number].is_nullable).collect()
}

/// The column of a declared field; items of a list and values of a map have no name of their own.
fn column_of(field: &Bound<'_, PyAny>, place: &str, is_named: bool) -> PyResult<Column> {
    let name: String = field.getattr("name")?.extract()?;
    let inner = if is_named { format!("{place}{name}.") } else { place.to_owned() };
    let kind: String = field.getattr("type")?.extract()?;
    let data = match kind.as_str() {
        "boolean" => Data::Boolean(Vec::new()),
        "int32" => Data::Int32(Vec::new()),
        "int64" => Data::Int64(Vec::new()),
        "float32" => Data::Float32(Vec::new()),
        "float64" => Data::Float64(Vec::new()),
        "timestamp" => Data::Moment(Vec::new()),
        "date" => Data::Date(Vec::new()),
        "string" => Data::Text(Bytes::new()),
        "json" => Data::Json(Bytes::new()),
        "binary" => Data::Binary(Bytes::new()),
        "struct" => Data::Struct(struct_of(&field.getattr("fields")?.extract::<Vec<_>>()?, inner)?),
        "list" => {
            let items = Box::new(column_of(&field.getattr("items")?, &inner, false)?);
            Data::List { offsets: vec![0], items }
        }
        "map" => {
            let values = Box::new(column_of(&field.getattr("values")?, &inner, false)?);
            Data::Map { offsets: vec![0], keys: Bytes::new(), values }
        }
        _ => {
            let (precision, scale) = decimal_of(&kind)
                .ok_or_else(|| PyValueError::new_err(format!("a column of the type {kind} is not known here")))?;
            Data::Decimal { values: Vec::new(), precision, scale }
        }
    };
    let is_nullable = field.getattr("nullable")?.extract()?;
    Ok(Column { name: is_named.then_some(name), is_nullable, valid: Vec::new(), data })
}

/// Precision and scale of `decimal(p,s)`.
fn decimal_of(kind: &str) -> Option<(u8, u8)> {
    let (precision, scale) = kind.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    Some((precision.trim().parse().ok()?, scale.trim().parse().ok()?))
}

/// What the fields of sampled lines were seen to be, `levels` deep: `(records, unreadable, seen)`.
#[pyfunction]
fn look_at_lines(
    py: Python<'_>,
    lines: Vec<Bound<'_, PyBytes>>,
    levels: usize,
    deepest: usize,
) -> PyResult<(usize, usize, Py<PyTuple>)> {
    let mut root = Seen::default();
    let (mut records, mut unreadable) = (0, 0);
    let mut buffer = Vec::new();
    for line in &lines {
        buffer.clear();
        buffer.extend(line.as_bytes().iter().map(|&byte| if byte == b'\n' { b'\r' } else { byte }));
        buffer.push(b'\n');
        let is_record = root.add_line(&buffer, levels, deepest);
        records += usize::from(is_record);
        unreadable += usize::from(!is_record);
    }
    Ok((records, unreadable, root.into_python(py)?.unbind()))
}

#[pymodule]
fn tidegate_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<LineReader>()?;
    module.add_class::<ArraySplitter>()?;
    module.add_class::<avro::AvroReader>()?;
    module.add_function(wrap_pyfunction!(look_at_lines, module)?)
}
