//! Records of Avro blocks to Arrow columns, for `tidegate.formats.avro`.
//!
//! The schema comes as a plan: what each value is, in the order in which values lie in a block. A record is read here if
//! it surely is one of the plan. At any other one, damaged or only odd, reading ends, and the library that makes Python
//! values of each record has the last word.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::columns::{Bytes, Column, Data, Struct};
use crate::names::Names;
use crate::to_python;

/// Bytes that are read before the columns must be finished.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Bytes that the words of an enumeration may take in one column.
const MOST_WORDS: usize = 128 * 1024 * 1024;
const DAY: i64 = 86_400_000_000;
/// The first and the last day of the calendar, years 1 to 9999, counted from 1970.
const DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;

enum Kind {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Uuid,
    /// A UUID in sixteen bytes, told as text.
    UuidBytes,
    Words(Vec<String>),
    Fixed(usize),
    Date,
    /// A moment, by how many microseconds its unit has.
    Moment(i64),
    /// A time of day, likewise.
    Time(i64),
    /// A decimal number; the size of its bytes, where it is fixed.
    Decimal(Option<usize>),
    Record(Vec<Value>),
    Array(Box<Value>),
    Map(Box<Value>),
}

/// What a value is; `null` is the branch of a union that stands for none.
struct Value {
    null: Option<i64>,
    kind: Kind,
}

/// Reads the records of blocks into columns, until they are finished.
#[pyclass]
pub struct AvroReader {
    values: Vec<Value>,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

#[pymethods]
impl AvroReader {
    #[new]
    fn new(plan: Vec<Bound<'_, PyAny>>) -> PyResult<Self> {
        let (values, columns) = planned_fields(&plan)?;
        Ok(AvroReader { values, columns, rows: 0, bytes: 0 })
    }

    /// Up to `most` records of a block from the byte `at` on: how many were read, where the next one begins, and whether
    /// it may be read when the columns are finished.
    fn read(&mut self, py: Python<'_>, block: &[u8], at: usize, most: usize) -> PyResult<(usize, usize, bool)> {
        if at > block.len() || i32::try_from(block.len()).is_err() {
            return Err(PyValueError::new_err("a block has less than 2 GiB"));
        }
        Ok(py.detach(|| self.read_records(block, at, most)))
    }

    /// The columns so far, each as `(length, nulls, buffers, children)`, and how many records they have.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<(usize, Vec<Bound<'py, PyTuple>>)> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let finished: Vec<_> = py.detach(|| self.columns.iter_mut().map(|column| column.finish(rows)).collect());
        let columns = finished.into_iter().map(|column| to_python(py, column)).collect::<PyResult<Vec<_>>>()?;
        Ok((rows, columns))
    }
}

impl AvroReader {
    fn read_records(&mut self, block: &[u8], at: usize, most: usize) -> (usize, usize, bool) {
        let mut input = Input { bytes: &block[at..] };
        for count in 0..most {
            if self.bytes > MOST_BYTES {
                return (count, block.len() - input.bytes.len(), true);
            }
            let before = input.bytes.len();
            let mut fields = self.values.iter().zip(&mut self.columns);
            if fields.any(|(value, column)| value.read(column, self.rows, &mut input).is_none()) {
                self.columns.iter_mut().for_each(|column| column.truncate(self.rows));
                return (count, block.len() - before, false);
            }
            self.rows += 1;
            self.bytes += before - input.bytes.len();
        }
        (most, block.len() - input.bytes.len(), true)
    }
}

struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    #[inline]
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(size)?;
        self.bytes = rest;
        Some(taken)
    }

    fn array<const SIZE: usize>(&mut self) -> Option<[u8; SIZE]> {
        self.take(SIZE)?.try_into().ok()
    }

    /// A number: seven bits of each byte, the least first, and the sign in the lowest bit.
    #[inline]
    fn long(&mut self) -> Option<i64> {
        let mut value = 0u64;
        for (place, &byte) in self.bytes.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                self.bytes = &self.bytes[place + 1..];
                let is_whole = place < 9 || byte < 2;
                return is_whole.then_some((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        None
    }

    #[inline]
    fn sized(&mut self) -> Option<&'a [u8]> {
        let size = usize::try_from(self.long()?).ok()?;
        self.take(size)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.sized()?).ok()
    }

    /// The items of the next part of an array or a map, each of which has a byte at least; 0 at its end.
    fn items(&mut self) -> Option<usize> {
        let mut count = self.long()?;
        if count < 0 {
            count = count.checked_neg()?;
            self.long()?;
        }
        usize::try_from(count).ok().filter(|&count| count <= self.bytes.len())
    }
}

impl Value {
    /// Read a value as value `row` of its column; None where it is odd.
    fn read(&self, column: &mut Column, row: usize, input: &mut Input) -> Option<()> {
        if let Some(null) = self.null {
            let branch = input.long()?;
            if branch == null {
                return Some(());
            }
            if branch != 1 - null {
                return None;
            }
        }
        column.pad(row);
        self.kind.read(&mut column.data, row, input)?;
        column.valid.push(1);
        Some(())
    }
}

impl Kind {
    fn read(&self, data: &mut Data, row: usize, input: &mut Input) -> Option<()> {
        match (self, data) {
            (Kind::Boolean, Data::Boolean(values)) => {
                let [byte] = input.array()?;
                (byte < 2).then(|| values.push(byte))?;
            }
            (Kind::Int, Data::Int32(values)) => values.push(i32::try_from(input.long()?).ok()?),
            (Kind::Long, Data::Int64(values)) => values.push(input.long()?),
            (Kind::Float, Data::Float32(values)) => values.push(f32::from_le_bytes(input.array()?)),
            (Kind::Double, Data::Float64(values)) => values.push(f64::from_le_bytes(input.array()?)),
            (Kind::Date, Data::Date(values)) => values.push(days(input)? as i32),
            (Kind::Moment(unit), Data::Moment(values)) => {
                let value = input.long()?.checked_mul(*unit)?;
                DAYS.contains(&value.div_euclid(DAY)).then(|| values.push(value))?;
            }
            (Kind::Time(unit), Data::Moment(values)) => {
                let value = input.long()?.checked_mul(*unit)?;
                (0..DAY).contains(&value).then(|| values.push(value))?;
            }
            (Kind::Decimal(size), Data::Decimal { values, precision, .. }) => {
                let bytes = if let Some(size) = size { input.take(*size)? } else { input.sized()? };
                let value = whole(bytes)?;
                (value.unsigned_abs() < 10u128.pow(u32::from(*precision))).then(|| values.push(value))?;
            }
            (Kind::Text, Data::Text(texts)) => append(texts, input.text()?.as_bytes())?,
            (Kind::Uuid, Data::Text(texts)) => {
                let text = input.text()?.as_bytes();
                is_uuid(text).then(|| append(texts, text))??;
            }
            (Kind::UuidBytes, Data::Text(texts)) => append(texts, &uuid_text(input.array()?))?,
            (Kind::Words(words), Data::Text(texts)) => {
                let word = words.get(usize::try_from(input.long()?).ok()?)?;
                (texts.data.len() < MOST_WORDS).then(|| append(texts, word.as_bytes()))??;
            }
            (Kind::Bytes, Data::Binary(bytes)) => append(bytes, input.sized()?)?,
            (Kind::Fixed(size), Data::Binary(bytes)) => append(bytes, input.take(*size)?)?,
            (Kind::Record(fields), Data::Struct(data)) => {
                for (field, child) in fields.iter().zip(&mut data.children) {
                    field.read(child, row, input)?;
                }
            }
            (Kind::Array(item), Data::List { offsets, items }) => {
                let mut end = crate::columns::end_of(offsets);
                while let count @ 1.. = input.items()? {
                    for _ in 0..count {
                        item.read(items, end, input)?;
                        end += 1;
                    }
                }
                offsets.push(i32::try_from(end).ok()?);
            }
            (Kind::Map(value), Data::Map { offsets, keys, values }) => {
                let start = crate::columns::end_of(offsets);
                let mut end = start;
                while let count @ 1.. = input.items()? {
                    for _ in 0..count {
                        append(keys, input.text()?.as_bytes())?;
                        value.read(values, end, input)?;
                        end += 1;
                    }
                }
                has_own_keys(keys, start, end).then_some(())?;
                offsets.push(i32::try_from(end).ok()?);
            }
            _ => return None,
        }
        Some(())
    }
}

fn days(input: &mut Input) -> Option<i64> {
    input.long().filter(|days| DAYS.contains(days))
}

fn append(texts: &mut Bytes, value: &[u8]) -> Option<()> {
    texts.data.extend_from_slice(value);
    texts.close().then_some(())
}

/// A whole number whose bytes are in the order of its digits.
fn whole(bytes: &[u8]) -> Option<i128> {
    let sign = if bytes.first().is_some_and(|&byte| byte >= 0x80) { 0xff } else { 0 };
    let mut all = [sign; 16];
    all.get_mut(16usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(all))
}

/// Whether it is written as it would be told: small digits, in groups.
fn is_uuid(text: &[u8]) -> bool {
    let is_dash = |place: usize| matches!(place, 8 | 13 | 18 | 23);
    let fits = |(place, &byte): (usize, &u8)| match byte {
        b'-' => is_dash(place),
        b'0'..=b'9' | b'a'..=b'f' => !is_dash(place),
        _ => false,
    };
    text.len() == 36 && text.iter().enumerate().all(fits)
}

/// A UUID as it is told: small digits, in groups.
fn uuid_text(bytes: [u8; 16]) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut place = 0;
    for (number, byte) in bytes.into_iter().enumerate() {
        place += usize::from(matches!(number, 4 | 6 | 8 | 10));
        text[place] = DIGITS[usize::from(byte >> 4)];
        text[place + 1] = DIGITS[usize::from(byte & 15)];
        place += 2;
    }
    text
}

/// Whether no two keys from `start` to before `end` are the same.
fn has_own_keys(keys: &Bytes, start: usize, end: usize) -> bool {
    let key = |place: usize| &keys.data[keys.offsets[place] as usize..keys.offsets[place + 1] as usize];
    let mut all: Vec<_> = (start..end).map(key).collect();
    all.sort_unstable();
    all.windows(2).all(|pair| pair[0] != pair[1])
}

fn planned_fields(plan: &[Bound<'_, PyAny>]) -> PyResult<(Vec<Value>, Vec<Column>)> {
    let fields = plan.iter().map(planned).collect::<PyResult<Vec<_>>>()?;
    Ok(fields.into_iter().unzip())
}

/// A value of the plan, `(kind, null, inner)`, and its column.
fn planned(plan: &Bound<'_, PyAny>) -> PyResult<(Value, Column)> {
    let (name, null, inner): (String, i64, Bound<'_, PyAny>) = plan.extract()?;
    let (kind, data) = match name.as_str() {
        "boolean" => (Kind::Boolean, Data::Boolean(Vec::new())),
        "int" => (Kind::Int, Data::Int32(Vec::new())),
        "long" => (Kind::Long, Data::Int64(Vec::new())),
        "float" => (Kind::Float, Data::Float32(Vec::new())),
        "double" => (Kind::Double, Data::Float64(Vec::new())),
        "bytes" => (Kind::Bytes, Data::Binary(Bytes::new())),
        "string" => (Kind::Text, Data::Text(Bytes::new())),
        "uuid" => (Kind::Uuid, Data::Text(Bytes::new())),
        "uuid_bytes" => (Kind::UuidBytes, Data::Text(Bytes::new())),
        "enum" => (Kind::Words(inner.extract()?), Data::Text(Bytes::new())),
        "fixed" => (Kind::Fixed(inner.extract()?), Data::Binary(Bytes::new())),
        "date" => (Kind::Date, Data::Date(Vec::new())),
        "moment" => (Kind::Moment(inner.extract()?), Data::Moment(Vec::new())),
        "time" => (Kind::Time(inner.extract()?), Data::Moment(Vec::new())),
        "decimal" => {
            let (size, precision, scale): (Option<usize>, u8, u8) = inner.extract()?;
            if precision > 38 {
                return Err(PyValueError::new_err("a decimal number has at most 38 digits"));
            }
            (Kind::Decimal(size), Data::Decimal { values: Vec::new(), precision, scale })
        }
        "record" => {
            let (fields, children) = planned_fields(&inner.extract::<Vec<_>>()?)?;
            let data = Struct { children, names: Names::new(String::new()), required: Vec::new() };
            (Kind::Record(fields), Data::Struct(data))
        }
        "array" => {
            let (item, items) = planned(&inner)?;
            (Kind::Array(Box::new(item)), Data::List { offsets: vec![0], items: Box::new(items) })
        }
        "map" => {
            let (value, values) = planned(&inner)?;
            let data = Data::Map { offsets: vec![0], keys: Bytes::new(), values: Box::new(values) };
            (Kind::Map(Box::new(value)), data)
        }
        _ => return Err(PyValueError::new_err(format!("{name} is not known here"))),
    };
    let column = Column { name: None, is_nullable: true, valid: Vec::new(), data };
    Ok((Value { null: (null >= 0).then_some(null), kind }, column))
}
