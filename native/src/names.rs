//! From the keys of an object to the fields of its struct: mostly by guessing that they come as they came before.

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
    /// The entry that followed this one the last time.
    next: u32,
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
    index: HashMap<Box<[u8]>, u32, Seed>,
    first: u32,
}

/// Where an object stands in its keys: at the entry of the last one.
pub type Step = Option<u32>;

/// So many entries behind the last one are looked at, as records leave out fields but keep their order.
const AHEAD: usize = 4;

impl Names {
    /// `place` is where the struct stands: names from the record on, with a dot behind each.
    pub fn new(place: String) -> Self {
        Names { place, entries: Vec::new(), index: HashMap::with_hasher(Seed::new()), first: 0 }
    }

    pub fn insert(&mut self, name: &[u8], slot: Slot) -> u32 {
        let number = self.entries.len() as u32;
        self.entries.push(Entry {
            name: name.into(),
            digest: digest(name),
            start: start(name),
            slot,
            next: number + 1,
        });
        self.index.insert(name.into(), number);
        number
    }

    /// The full name of an undeclared field.
    pub fn full_name(&self, name: &[u8]) -> String {
        format!("{}{}", self.place, String::from_utf8_lossy(name))
    }

    /// The entry and what stands behind it; none for a name that is new.
    #[inline(always)]
    pub fn find(&mut self, step: Step, name: &[u8]) -> Option<(u32, Slot)> {
        let guess = match step {
            None => self.first,
            Some(last) => self.entries[last as usize].next,
        };
        let digest = digest(name);
        if let Some(entry) = self.entries.get(guess as usize)
            && entry.is_named(name, digest)
        {
            return Some((guess, entry.slot));
        }
        let number = self.look_up(guess, name, digest)?;
        match step {
            None => self.first = number,
            Some(last) => self.entries[last as usize].next = number,
        }
        Some((number, self.entries[number as usize].slot))
    }

    fn look_up(&self, guess: u32, name: &[u8], digest: u64) -> Option<u32> {
        let ahead = self.entries.iter().enumerate().skip(guess as usize + 1).take(AHEAD);
        for (number, entry) in ahead {
            if entry.is_named(name, digest) {
                return Some(number as u32);
            }
        }
        self.index.get(name).copied()
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
