//! Columns while they grow, and the buffers that Arrow has them as.
//!
//! Value `n` of a column is written when there is one: nulls in between are filled in by the next value, or at the
//! end. So a field that a record does not have costs nothing, and whether a struct has a value for a field already is
//! a comparison of lengths. What was written of a record that turns out to be none is cut off again.

use std::collections::HashMap;

use crate::names::Names;

/// Texts or bytes, one behind the other.
pub struct Bytes {
    pub offsets: Vec<i32>,
    pub data: Vec<u8>,
}

impl Bytes {
    pub fn new() -> Self {
        Bytes { offsets: vec![0], data: Vec::new() }
    }

    fn resize(&mut self, length: usize) {
        let end = *self.offsets.get(length).unwrap_or(&self.offsets[self.offsets.len() - 1]);
        self.offsets.resize(length + 1, end);
        self.data.truncate(end as usize);
    }

    /// What lies behind the last end becomes a value; false where offsets cannot count that far.
    pub fn close(&mut self) -> bool {
        let end = i32::try_from(self.data.len());
        self.offsets.push(end.unwrap_or(i32::MAX));
        end.is_ok()
    }
}

pub struct Struct {
    pub children: Vec<Column>,
    pub names: Names,
    pub required: Vec<usize>,
}

pub enum Data {
    Boolean(Vec<u8>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Decimal { values: Vec<i128>, precision: u8, scale: u8 },
    Moment(Vec<i64>),
    Date(Vec<i32>),
    Text(Bytes),
    Json(Bytes),
    Binary(Bytes),
    Struct(Struct),
    List { offsets: Vec<i32>, items: Box<Column> },
    Map { offsets: Vec<i32>, keys: Bytes, values: Box<Column> },
}

pub struct Column {
    /// Its name; the items of a list and the values of a map have none.
    pub name: Option<String>,
    pub is_nullable: bool,
    /// One byte for each value: 1 unless it is null.
    pub valid: Vec<u8>,
    pub data: Data,
}

/// A column as Arrow has it: its values, how many are null, its buffers and the columns inside it.
pub struct Finished {
    pub length: usize,
    pub nulls: usize,
    pub buffers: Vec<Option<Vec<u8>>>,
    pub children: Vec<Finished>,
}

impl Column {
    pub fn len(&self) -> usize {
        self.valid.len()
    }

    /// Fill up with nulls; afterwards value `row` can be written.
    #[inline(always)]
    pub fn pad(&mut self, row: usize) {
        if self.len() < row {
            self.resize(row);
        }
    }

    /// Take back everything from `row` on, and what was written of a value that was not finished.
    pub fn truncate(&mut self, row: usize) {
        if self.len() > row {
            self.resize(row);
        }
        match &mut self.data {
            Data::Struct(data) => data.children.iter_mut().for_each(|child| child.truncate(row)),
            Data::List { offsets, items } => items.truncate(end_of(offsets)),
            Data::Map { offsets, keys, values } => {
                keys.resize(end_of(offsets));
                values.truncate(end_of(offsets));
            }
            Data::Text(data) | Data::Json(data) | Data::Binary(data) => data.resize(self.valid.len()),
            _ => {}
        }
    }

    fn resize(&mut self, length: usize) {
        self.valid.resize(length, 0);
        match &mut self.data {
            Data::Boolean(values) => values.resize(length, 0),
            Data::Int32(values) | Data::Date(values) => values.resize(length, 0),
            Data::Int64(values) | Data::Moment(values) => values.resize(length, 0),
            Data::Float32(values) => values.resize(length, 0.0),
            Data::Float64(values) => values.resize(length, 0.0),
            Data::Decimal { values, .. } => values.resize(length, 0),
            Data::Text(data) | Data::Json(data) | Data::Binary(data) => data.resize(length),
            Data::List { offsets, .. } | Data::Map { offsets, .. } => resize_offsets(offsets, length),
            Data::Struct(_) => {} // fields catch up when they have a value
        }
    }

    /// The buffers of `length` values; the column is empty afterwards.
    pub fn finish(&mut self, length: usize) -> Finished {
        self.pad(length);
        let valid = taken(&mut self.valid);
        // a required field is null only where its struct is, and Arrow wants no null of its own there
        let nulls = if self.is_nullable { valid.iter().filter(|&&valid| valid == 0).count() } else { 0 };
        let validity = (nulls > 0).then(|| pack(&valid));
        let mut children = Vec::new();
        let mut buffers = vec![validity];
        match &mut self.data {
            Data::Boolean(values) => buffers.push(Some(pack(&taken(values)))),
            Data::Int32(values) | Data::Date(values) => buffers.push(take_bytes(values)),
            Data::Int64(values) | Data::Moment(values) => buffers.push(take_bytes(values)),
            Data::Float32(values) => buffers.push(take_bytes(values)),
            Data::Float64(values) => buffers.push(take_bytes(values)),
            Data::Decimal { values, .. } => buffers.push(take_bytes(values)),
            Data::Text(data) | Data::Json(data) | Data::Binary(data) => buffers.extend(finish_bytes(data)),
            Data::Struct(data) => {
                children.extend(data.children.iter_mut().map(|child| child.finish(length)));
            }
            Data::List { offsets, items } => {
                children.push(items.finish(end_of(offsets)));
                buffers.push(take_offsets(offsets));
            }
            Data::Map { offsets, keys, values } => {
                let count = end_of(offsets);
                let keys = [None].into_iter().chain(finish_bytes(keys)).collect();
                children.push(Finished { length: count, nulls: 0, buffers: keys, children: Vec::new() });
                children.push(values.finish(count));
                buffers.push(take_offsets(offsets));
            }
        }
        Finished { length, nulls, buffers, children }
    }
}

/// How many values all lists so far have.
pub fn end_of(offsets: &[i32]) -> usize {
    offsets[offsets.len() - 1] as usize
}

fn resize_offsets(offsets: &mut Vec<i32>, length: usize) {
    let end = offsets[offsets.len() - 1];
    offsets.resize(length + 1, end);
}

fn finish_bytes(data: &mut Bytes) -> [Option<Vec<u8>>; 2] {
    [take_offsets(&mut data.offsets), Some(taken(&mut data.data))]
}

/// What a column held, and some more room in its place: the next block is mostly alike.
fn taken(bytes: &mut Vec<u8>) -> Vec<u8> {
    let room = Vec::with_capacity(bytes.len() + bytes.len() / 8);
    let mut taken = std::mem::replace(bytes, room);
    taken.shrink_to_fit();
    taken
}

fn take_offsets(offsets: &mut Vec<i32>) -> Option<Vec<u8>> {
    let taken = take_bytes(offsets);
    offsets.push(0);
    taken
}

/// A value of a column that Arrow keeps as it lies in memory, in the order of bytes that Arrow has.
trait Plain: Copy {
    fn append(self, out: &mut Vec<u8>);
}

macro_rules! plain {
    ($($kind:ty),*) => {
        $(impl Plain for $kind {
            fn append(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        })*
    };
}
plain!(i32, i64, i128, f32, f64);

fn take_bytes<T: Plain>(values: &mut Vec<T>) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(size_of_val(values.as_slice()));
    for value in values.drain(..) {
        value.append(&mut out);
    }
    Some(out)
}

/// One bit for each byte that is 0 or 1.
fn pack(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(8).map(|chunk| chunk.iter().rev().fold(0, |bits, byte| bits << 1 | byte)).collect()
}

/// Counts of names, and of what was added for a record that may still turn out to be none.
#[derive(Default)]
pub struct Tally {
    counts: Vec<(String, u64)>,
    ids: HashMap<String, u32>,
    pending: Vec<u32>,
}

impl Tally {
    pub fn id(&mut self, name: String) -> u32 {
        let next = self.counts.len() as u32;
        *self.ids.entry(name).or_insert_with_key(|name| {
            self.counts.push((name.clone(), 0));
            next
        })
    }

    pub fn add(&mut self, id: u32) {
        self.pending.push(id);
    }

    /// End a record; what it added counts only if it was one.
    pub fn end_record(&mut self, is_good: bool) {
        for id in self.pending.drain(..) {
            self.counts[id as usize].1 += u64::from(is_good);
        }
    }

    /// The counts so far; they begin at 0 again.
    pub fn take(&mut self) -> Vec<(String, u64)> {
        let found = self.counts.iter_mut().filter(|(_, count)| *count > 0);
        found.map(|(name, count)| (name.clone(), std::mem::take(count))).collect()
    }
}
