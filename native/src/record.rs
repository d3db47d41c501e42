//! Lines to records: each value goes straight into its column, or the whole line is left to the strict line reader.

use crate::columns::{Bytes, Column, Data, Struct, end_of};
use crate::cursor::{Cursor, Read, Stop, Text};
use crate::misfits::{Context, each_pair, misfit, repeated_key};
use crate::names::{Names, Slot};
use crate::numbers::Number;
use crate::texts;

/// One record under way: all its top-level columns are a struct.
pub struct Records {
    pub root: Struct,
    /// The column for what fits no other, and the columns whose texts must not be empty.
    pub rescued: Option<Column>,
    pub filled: Vec<usize>,
    /// Names that records must not have.
    pub forbidden: Vec<String>,
    pub context: Context,
    pub rows: usize,
}

/// What a line is.
#[derive(PartialEq, Eq)]
pub enum Line {
    Record,
    Blank,
    Odd,
}

impl Records {
    /// Read the line at the cursor, and go behind it.
    pub fn read_line(&mut self, cursor: &mut Cursor) -> Line {
        if cursor.next_byte() == b'\n' {
            cursor.at += 1;
            return Line::Blank;
        }
        let is_good = self.read_record(cursor, |byte| byte == b'\n').is_ok();
        cursor.go_to_line_end();
        cursor.at += 1;
        self.end_record(is_good);
        if is_good { Line::Record } else { Line::Odd }
    }

    /// Read the element of an array at the cursor, if it surely is a record that ends before `limit`, and go to what
    /// follows it: a comma, or the bracket that closes the array.
    pub fn read_element(&mut self, cursor: &mut Cursor, limit: usize) -> bool {
        let is_end = |byte| matches!(byte, b',' | b']' | b'}');
        let is_good = cursor.next_byte() == b'{' && self.read_record(cursor, is_end).is_ok() && cursor.at <= limit;
        self.end_record(is_good);
        is_good
    }

    fn end_record(&mut self, is_good: bool) {
        self.context.end_record(is_good);
        if is_good {
            self.rows += 1;
            return;
        }
        for column in self.root.children.iter_mut().chain(&mut self.rescued) {
            column.truncate(self.rows);
        }
    }

    /// Why the line at the cursor, which is a JSON object, is no record; none where only the strict line reader knows.
    pub fn why_not(&mut self, mut cursor: Cursor) -> Option<String> {
        cursor.next_byte();
        self.context.reason.is_wanted = true;
        let is_record =
            self.refuse_forbidden(cursor).is_ok() && self.read_record(&mut cursor, |byte| byte == b'\n').is_ok();
        self.end_record(false);
        self.context.reason.take().filter(|_| !is_record)
    }

    fn refuse_forbidden(&mut self, cursor: Cursor) -> Read<()> {
        let mut found = None;
        if !self.forbidden.is_empty() {
            each_pair(cursor, |name, is_null| {
                if !is_null && self.forbidden.iter().any(|each| each.as_bytes() == name) {
                    found.get_or_insert(name);
                }
            })?;
        }
        let Some(name) = found else { return Ok(()) };
        let words = |name| Some(format!("field {name} has the name of a partition column that comes from the path"));
        self.context.say(&name, words);
        Err(Stop::Odd)
    }

    fn read_record(&mut self, cursor: &mut Cursor, is_end: impl Fn(u8) -> bool) -> Read<()> {
        let (row, context) = (self.rows, &mut self.context);
        if cursor.byte() != b'{' {
            return Err(Stop::Odd);
        }
        read_fields(cursor, &mut self.root, row, context, 1)?;
        if !is_end(cursor.next_byte()) {
            return Err(Stop::Odd);
        }
        for &number in &self.filled {
            let column = &self.root.children[number];
            if let Data::Text(data) = &column.data
                && column.valid.get(row) == Some(&1)
                && data.offsets[row] == data.offsets[row + 1]
            {
                let words =
                    |name| Some(format!("required field {name} is empty, which is null for a partition column"));
                context.say(column.name.as_deref().unwrap_or_default().as_bytes(), words);
                return Err(Stop::Odd);
            }
        }
        if let Some(column) = &mut self.rescued
            && context.has_left()
        {
            column.pad(row);
            let Data::Text(data) = &mut column.data else { return Err(Stop::Odd) };
            context.left.push(b'}');
            data.offsets.push(i32::try_from(context.left.len()).map_err(|_| Stop::Odd)?);
            column.valid.push(1);
        }
        Ok(())
    }
}

fn close(data: &mut Bytes, valid: &mut Vec<u8>) -> Read<()> {
    if !data.close() {
        data.offsets.pop();
        return Err(Stop::Odd);
    }
    valid.push(1);
    Ok(())
}

/// The fields of the object that begins here, into value `row` of a struct's columns.
fn read_fields(cursor: &mut Cursor, data: &mut Struct, row: usize, context: &mut Context, depth: usize) -> Read<()> {
    cursor.check_depth(depth)?;
    let start = cursor.at;
    cursor.at += 1;
    if cursor.next_byte() == b'}' {
        cursor.at += 1;
    } else {
        loop {
            let key = cursor.key()?;
            let slot = find(cursor, key, &mut data.names, context);
            let is_null = cursor.next_byte() == b'n';
            match slot {
                Slot::Forbidden if is_null => cursor.word(b"null")?,
                Slot::Forbidden => return Err(Stop::Odd),
                Slot::Undeclared(id) => {
                    context.tally.add(id);
                    leave_out(cursor, key, context, depth)?;
                }
                Slot::Field(number) => {
                    let child = &mut data.children[number as usize];
                    if child.len() > row {
                        if !context.options.lenient {
                            let words = |name| Some(format!("key {name} is repeated"));
                            context.say(child.name.as_deref().unwrap_or_default().as_bytes(), words);
                            return Err(Stop::Odd);
                        }
                        child.truncate(row);
                    }
                    if is_null {
                        cursor.word(b"null")?;
                    } else {
                        read_forgiving(cursor, child, row, context, depth)?;
                    }
                }
            }
            match cursor.next_byte() {
                b',' => cursor.at += 1,
                b'}' => break,
                _ => return Err(Stop::Odd),
            }
        }
        cursor.at += 1;
    }
    if let Some(&number) = data.required.iter().find(|&&number| data.children[number].len() <= row) {
        if context.reason.is_wanted {
            let name = data.children[number].name.as_deref().unwrap_or_default().as_bytes();
            let mut what = "missing";
            each_pair(cursor.moved_to(start), |key, _| what = if key == name { "null" } else { what })?;
            context.say(name, |name| Some(format!("required field {name} is {what}")));
        }
        return Err(Stop::Misfit);
    }
    Ok(())
}

#[inline(always)]
fn find(cursor: &Cursor, key: Text, names: &mut Names, context: &mut Context) -> Slot {
    let name = if key.is_escaped {
        context.key.clear();
        cursor.unescape(key, &mut context.key);
        &context.key
    } else {
        cursor.raw(key)
    };
    names.find(name).unwrap_or_else(|| {
        let slot = Slot::Undeclared(context.tally.id(names.full_name(name)));
        names.insert(name, slot);
        slot
    })
}

fn leave_out(cursor: &mut Cursor, key: Text, context: &mut Context, depth: usize) -> Read<()> {
    if !context.options.rescues {
        return cursor.skip(depth);
    }
    if context.path.is_empty() && !key.is_escaped {
        return cursor.compact_pair(key, depth, context.next_left());
    }
    let before = if key.is_escaped {
        let mut name = Vec::new();
        cursor.unescape(key, &mut name);
        context.descend(&name)
    } else {
        context.descend(cursor.raw(key))
    };
    context.leave(cursor, depth)?;
    context.path.truncate(before);
    Ok(())
}

/// A value of a column; where values can be rescued, one that does not fit a column that may be null is.
#[inline(always)]
fn read_forgiving(
    cursor: &mut Cursor,
    column: &mut Column,
    row: usize,
    context: &mut Context,
    depth: usize,
) -> Read<()> {
    let (start, left, path) = (cursor.at, context.left.len(), context.path.len());
    match read_value(cursor, column, row, context, depth) {
        Err(Stop::Misfit) if context.options.rescues && column.is_nullable => {
            column.truncate(row);
            column.pad(row + 1); // a null that is there: the key is not to come again
            context.left.truncate(left);
            context.path.truncate(path);
            cursor.at = start;
            context.rescue(cursor, &column.name, depth)
        }
        Err(Stop::Misfit) if context.reason.is_wanted => {
            context.path.truncate(path);
            context.descend_to(&column.name);
            let (value, lenient) = (cursor.moved_to(start), context.options.lenient);
            context.reason.say(&context.path, |path| misfit(value, column, lenient, &path));
            Err(Stop::Misfit)
        }
        other => other,
    }
}

/// A value, which is not null, into place `row` of a column.
fn read_value(cursor: &mut Cursor, column: &mut Column, row: usize, context: &mut Context, depth: usize) -> Read<()> {
    column.pad(row);
    let name = &column.name;
    let lenient = context.options.lenient;
    let first = cursor.next_byte();
    match &mut column.data {
        Data::Boolean(values) => {
            let value = match first {
                b't' => cursor.word(b"true").map(|_| 1)?,
                b'f' => cursor.word(b"false").map(|_| 0)?,
                _ => return Err(Stop::Misfit),
            };
            values.push(value);
        }
        Data::Int32(values) => values.push(read_number(cursor, context, lenient, |n| n.int32(lenient))?),
        Data::Int64(values) => values.push(read_number(cursor, context, lenient, |n| n.int64(lenient))?),
        Data::Float32(values) => values.push(read_number(cursor, context, lenient, |n| n.float32(lenient))?),
        Data::Float64(values) => values.push(read_number(cursor, context, lenient, |n| n.float64(lenient))?),
        Data::Decimal { values, precision, scale } => {
            let convert = |number: Number| number.decimal(*precision, *scale, lenient);
            values.push(read_number(cursor, context, true, convert)?);
        }
        Data::Moment(values) => {
            let value = if first == b'"' {
                texts::moment(plain_text(cursor, context)?)?
            } else if lenient && is_number(first) {
                texts::in_calendar(cursor.number()?.microseconds()?)?
            } else {
                return Err(Stop::Misfit);
            };
            values.push(value);
        }
        Data::Date(values) => {
            if first != b'"' {
                return Err(Stop::Misfit);
            }
            values.push(texts::date(plain_text(cursor, context)?)?);
        }
        Data::Text(data) => {
            if first == b'"' {
                let text = cursor.text()?;
                cursor.unescape(text, &mut data.data);
            } else if context.options.coerce {
                cursor.compact(depth, &mut data.data)?;
            } else {
                return Err(Stop::Misfit);
            }
            return close(data, &mut column.valid);
        }
        Data::Json(data) => {
            cursor.compact(depth, &mut data.data)?;
            return close(data, &mut column.valid);
        }
        Data::Binary(data) => {
            if first != b'"' {
                return Err(Stop::Misfit);
            }
            texts::base64(plain_text(cursor, context)?, &mut data.data)?;
            return close(data, &mut column.valid);
        }
        Data::Struct(data) => {
            if first != b'{' {
                return Err(Stop::Misfit);
            }
            let before = context.descend_to(name);
            read_fields(cursor, data, row, context, depth + 1)?;
            context.path.truncate(before);
        }
        Data::List { offsets, items } => {
            if first != b'[' {
                return Err(Stop::Misfit);
            }
            let before = context.descend_to(name);
            let end = read_items(cursor, items, end_of(offsets), context, depth + 1)?;
            context.path.truncate(before);
            offsets.push(i32::try_from(end).map_err(|_| Stop::Odd)?);
        }
        Data::Map { offsets, keys, values } => {
            if first != b'{' {
                return Err(Stop::Misfit);
            }
            let before = context.descend_to(name);
            let start = end_of(offsets);
            // whether a key is repeated is decided before any value is: by a look ahead, or by the strict line reader
            if context.reason.is_wanted
                && let Some(key) = repeated_key(*cursor)?
            {
                context.say(&key, |name| Some(format!("key {name} is repeated")));
                return Err(Stop::Odd);
            }
            let found = read_pairs(cursor, keys, values, start, context, depth + 1);
            let end = found.map_err(|stop| if context.reason.is_wanted { stop } else { Stop::Odd })?;
            context.path.truncate(before);
            offsets.push(i32::try_from(end).map_err(|_| Stop::Odd)?);
        }
    }
    column.valid.push(1);
    Ok(())
}

fn is_number(first: u8) -> bool {
    first == b'-' || first.is_ascii_digit()
}

#[inline(always)]
fn read_number<T>(
    cursor: &mut Cursor,
    context: &mut Context,
    may_be_quoted: bool,
    convert: impl FnOnce(Number) -> Read<T>,
) -> Read<T> {
    match cursor.byte() {
        first if is_number(first) => convert(cursor.number()?),
        b'"' if may_be_quoted => convert(Number::whole(plain_text(cursor, context)?).ok_or(Stop::Misfit)?),
        _ => Err(Stop::Misfit),
    }
}

/// What a text says, until the next one is read.
#[inline(always)]
fn plain_text<'t, 'b: 't>(cursor: &mut Cursor<'b>, context: &'t mut Context) -> Read<&'t [u8]> {
    cursor.text_inside(&mut context.key)
}

/// The items of the array that begins here, from value `start` on; where they end.
fn read_items(
    cursor: &mut Cursor,
    items: &mut Column,
    start: usize,
    context: &mut Context,
    depth: usize,
) -> Read<usize> {
    cursor.check_depth(depth)?;
    cursor.at += 1;
    let mut place = start;
    if cursor.next_byte() == b']' {
        cursor.at += 1;
        return Ok(place);
    }
    let before = context.path.len();
    loop {
        if cursor.next_byte() == b'n' {
            cursor.word(b"null")?;
            if !items.is_nullable {
                context.descend_to_item(place - start);
                context.reason.say(&context.path, |path| Some(format!("required value {path} is null")));
                return Err(Stop::Misfit);
            }
        } else {
            context.descend_to_item(place - start);
            read_forgiving(cursor, items, place, context, depth)?;
            context.path.truncate(before);
        }
        place += 1;
        match cursor.next_byte() {
            b',' => cursor.at += 1,
            b']' => break,
            _ => return Err(Stop::Odd),
        }
    }
    cursor.at += 1;
    Ok(place)
}

/// The pairs of the object that begins here, from value `start` on; where they end.
fn read_pairs(
    cursor: &mut Cursor,
    keys: &mut Bytes,
    values: &mut Column,
    start: usize,
    context: &mut Context,
    depth: usize,
) -> Read<usize> {
    cursor.check_depth(depth)?;
    cursor.at += 1;
    let mut place = start;
    if cursor.next_byte() == b'}' {
        cursor.at += 1;
        return Ok(place);
    }
    let before = context.path.len();
    loop {
        let key = cursor.key()?;
        let begin = keys.data.len();
        cursor.unescape(key, &mut keys.data);
        if !keys.close() {
            return Err(Stop::Odd);
        }
        if cursor.next_byte() == b'n' {
            cursor.word(b"null")?;
            if !values.is_nullable {
                context.say(&keys.data[begin..], |path| Some(format!("required value {path} is null")));
                return Err(Stop::Misfit);
            }
        } else {
            context.descend(&keys.data[begin..]);
            read_forgiving(cursor, values, place, context, depth)?;
            context.path.truncate(before);
        }
        place += 1;
        match cursor.next_byte() {
            b',' => cursor.at += 1,
            b'}' => break,
            _ => return Err(Stop::Odd),
        }
    }
    cursor.at += 1;
    if has_repeated(keys, start, place) { Err(Stop::Odd) } else { Ok(place) }
}

/// Whether two of the keys from `start` to before `end` are the same.
fn has_repeated(keys: &Bytes, start: usize, end: usize) -> bool {
    let mut found: Vec<&[u8]> =
        (start..end).map(|place| &keys.data[keys.offsets[place] as usize..keys.offsets[place + 1] as usize]).collect();
    found.sort_unstable();
    found.windows(2).any(|pair| pair[0] == pair[1])
}
