//! From the keys of an object to the fields of its struct: mostly by eight of their bytes.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// What stands behind a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Field(u32),
    /// A field that the schema does not have, by the number of its count.
    Undeclared(u32),
    Forbidden,
}

struct Entry {
    name: Box<[u8]>,
    digest: u64,
    start: u64,
    slot: Slot,
}

impl Entry {
    /// Whether a name with this digest is the one of the entry; the digest has all of a short one.
    #[inline(always)]
    fn is_named(&self, name: &[u8], digest: u64) -> bool {
        self.digest == digest
            && self.name.len() == name.len()
            && match name.len() {
                ..=8 => true,
                9..=16 => self.start == start(name),
                _ => *self.name == *name,
            }
    }
}

/// The first eight bytes of a name; 0 where it has fewer.
#[inline(always)]
fn start(name: &[u8]) -> u64 {
    name.first_chunk::<8>().map_or(0, |start| u64::from_le_bytes(*start))
}

/// Eight bytes of a name: all of a short one, else its end, in which similar names differ.
#[inline(always)]
fn digest(name: &[u8]) -> u64 {
    if let Some(end) = name.last_chunk::<8>() {
        return u64::from_le_bytes(*end);
    }
    if let (Some(start), Some(end)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*start)) << 32 | u64::from(u32::from_le_bytes(*end));
    }
    name.iter().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The keys that objects of one struct have had.
pub struct Names {
    place: String,
    entries: Vec<Entry>,
    /// Numbers of entries, each in one of the [`NEAR`] places from that of its digest on, where one of them was free.
    table: Vec<u32>,
    index: HashMap<Box<[u8]>, u32, Seed>,
}

const FREE: u32 = u32::MAX;
const NEAR: usize = 4;
/// There are at least so many times as many places as names, so that most names stand in the first of theirs.
const PLACES: usize = 8;

impl Names {
    /// `place` is where the struct stands: names from the record on, with a dot behind each.
    pub fn new(place: String) -> Self {
        let index = HashMap::with_hasher(Seed::new());
        Names { place, entries: Vec::new(), table: vec![FREE; PLACES], index }
    }

    pub fn insert(&mut self, name: &[u8], slot: Slot) {
        let number = self.entries.len() as u32;
        self.entries.push(Entry { name: name.into(), digest: digest(name), start: start(name), slot });
        self.index.insert(name.into(), number);
        if self.entries.len() * PLACES <= self.table.len() {
            return self.put(number);
        }
        self.table = vec![FREE; self.table.len() * 2];
        (0..=number).for_each(|number| self.put(number));
    }

    fn put(&mut self, number: u32) {
        let digest = self.entries[number as usize].digest;
        if let Some(place) = self.near(digest).find(|&place| self.table[place] == FREE) {
            self.table[place] = number;
        }
    }

    /// The places of the table in which a name with this digest may stand.
    #[inline(always)]
    fn near(&self, digest: u64) -> impl Iterator<Item = usize> + use<> {
        let last = self.table.len() - 1;
        // the highest bits of the product are those that every bit of the digest has a part in
        let first = (digest.wrapping_mul(MULTIPLIER) >> (last.leading_zeros())) as usize;
        (first..first + NEAR).map(move |place| place & last)
    }

    /// The full name of an undeclared field.
    pub fn full_name(&self, name: &[u8]) -> String {
        format!("{}{}", self.place, String::from_utf8_lossy(name))
    }

    /// What stands behind a name; none for one that is new.
    #[inline(always)]
    pub fn find(&self, name: &[u8]) -> Option<Slot> {
        let digest = digest(name);
        for place in self.near(digest) {
            let entry = self.entries.get(self.table[place] as usize)?;
            if entry.is_named(name, digest) {
                return Some(entry.slot);
            }
        }
        self.index.get(name).map(|&number| self.entries[number as usize].slot)
    }
}

/// Makes hashes of short names by folded multiplication; its seed is random, so that no file can provoke collisions.
struct Seed(u64);

impl Seed {
    fn new() -> Self {
        Seed(RandomState::new().build_hasher().finish())
    }
}

impl BuildHasher for Seed {
    type Hasher = NameHash;

    fn build_hasher(&self) -> NameHash {
        NameHash(self.0)
    }
}

struct NameHash(u64);

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl NameHash {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(MULTIPLIER);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for NameHash {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.fold(u64::from_le_bytes(last));
    }

    fn write_usize(&mut self, length: usize) {
        self.fold(length as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
