//! Why a line is no JSON object, in the words and by the places of Python's parser, which the strict line reader uses.
//!
//! That parser decides by the first thing that it cannot read, and so does this walk. Whatever it leaves open (a depth
//! beyond the bound, half a surrogate pair, `NaN`) the strict reader says.

/// Why a walk ended early.
enum Stop {
    /// What was expected or found, and where.
    Told(&'static str, usize),
    Open,
}

type Walk = Result<usize, Stop>;

const VALUE: &str = "Expecting value";
const NAME: &str = "Expecting property name enclosed in double quotes";
const COLON: &str = "Expecting ':' delimiter";
const COMMA: &str = "Expecting ',' delimiter";
const ENDLESS: &str = "Unterminated string starting at";

/// What a line is that is UTF-8 and has no blanks around it.
pub enum Verdict {
    Object,
    /// Not one JSON object, and why.
    Other(String),
    Open,
}

/// Whether a line is one JSON object.
///
/// `names_commas` says that the parser has words of its own for a comma before a closing bracket: since Python 3.13.
pub fn judge(line: &[u8], deepest: usize, names_commas: bool) -> Verdict {
    let reader = Reader { line, deepest, names_commas };
    let (what, place) = match reader.value(0, 0) {
        Ok(end) => match reader.blanks(end) {
            end if end < line.len() => ("Extra data", end),
            _ if line[0] == b'{' => return Verdict::Object,
            _ => return Verdict::Other(format!("not an object but {}", kind(line[0]))),
        },
        Err(Stop::Told(what, place)) => (what, place),
        Err(Stop::Open) => return Verdict::Open,
    };
    if line.iter().filter(|byte| matches!(byte, b'{' | b'[')).count() > deepest {
        return Verdict::Open; // what is nested too deeply comes first, wherever it stands
    }
    let before = line[..place].iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
    Verdict::Other(format!("not JSON: {what} at character {}", before + 1))
}

/// What a value is that begins so.
pub fn kind(first: u8) -> &'static str {
    match first {
        b'{' => "an object",
        b'[' => "an array",
        b'"' => "a string",
        b'n' => "null",
        b't' | b'f' => "a boolean",
        _ => "a number",
    }
}

struct Reader<'a> {
    line: &'a [u8],
    deepest: usize,
    names_commas: bool,
}

impl Reader<'_> {
    fn at(&self, place: usize) -> Option<u8> {
        self.line.get(place).copied()
    }

    fn blanks(&self, mut place: usize) -> usize {
        while matches!(self.at(place), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            place += 1;
        }
        place
    }

    fn digits(&self, mut place: usize) -> usize {
        while self.at(place).is_some_and(|byte| byte.is_ascii_digit()) {
            place += 1;
        }
        place
    }

    /// Where the value ends that begins here, at `depth`, which is that of what it stands in.
    fn value(&self, place: usize, depth: usize) -> Walk {
        let word = |word: &[u8]| {
            if self.line[place..].starts_with(word) { Ok(place + word.len()) } else { Err(Stop::Told(VALUE, place)) }
        };
        match self.at(place) {
            Some(b'"') => self.text(place + 1),
            Some(b'{' | b'[') if depth == self.deepest => Err(Stop::Open),
            Some(b'{') => self.object(place + 1, depth + 1),
            Some(b'[') => self.array(place + 1, depth + 1),
            Some(b'n') => word(b"null"),
            Some(b't') => word(b"true"),
            Some(b'f') => word(b"false"),
            Some(b'N' | b'I') => Err(Stop::Open),
            Some(b'-' | b'0'..=b'9') => self.number(place),
            _ => Err(Stop::Told(VALUE, place)),
        }
    }

    fn number(&self, place: usize) -> Walk {
        let start = place + usize::from(self.at(place) == Some(b'-'));
        let mut end = match self.at(start) {
            Some(b'0') => start + 1,
            Some(b'1'..=b'9') => self.digits(start),
            Some(b'I') => return Err(Stop::Open),
            _ => return Err(Stop::Told(VALUE, place)),
        };
        if self.at(end) == Some(b'.') && self.digits(end + 1) > end + 1 {
            end = self.digits(end + 1);
        }
        if matches!(self.at(end), Some(b'e' | b'E')) {
            let digits = end + 1 + usize::from(matches!(self.at(end + 1), Some(b'+' | b'-')));
            if self.digits(digits) > digits {
                end = self.digits(digits);
            }
        }
        Ok(end)
    }

    fn object(&self, place: usize, depth: usize) -> Walk {
        let mut place = self.blanks(place);
        if self.at(place) == Some(b'}') {
            return Ok(place + 1);
        }
        loop {
            if self.at(place) != Some(b'"') {
                return Err(Stop::Told(NAME, place));
            }
            place = self.blanks(self.text(place + 1)?);
            if self.at(place) != Some(b':') {
                return Err(Stop::Told(COLON, place));
            }
            place = self.value(self.blanks(place + 1), depth)?;
            place = match self.next(place, b'}')? {
                (true, end) => return Ok(end),
                (false, next) => next,
            };
        }
    }

    fn array(&self, place: usize, depth: usize) -> Walk {
        let mut place = self.blanks(place);
        if self.at(place) == Some(b']') {
            return Ok(place + 1);
        }
        loop {
            place = self.value(place, depth)?;
            place = match self.next(place, b']')? {
                (true, end) => return Ok(end),
                (false, next) => next,
            };
        }
    }

    /// What follows a member: whether it was the last, and where to go on.
    fn next(&self, place: usize, close: u8) -> Result<(bool, usize), Stop> {
        let place = self.blanks(place);
        match self.at(place) {
            Some(byte) if byte == close => return Ok((true, place + 1)),
            Some(b',') => {}
            _ => return Err(Stop::Told(COMMA, place)),
        }
        let next = self.blanks(place + 1);
        if self.names_commas && self.at(next) == Some(close) {
            return Err(Stop::Open);
        }
        Ok((false, next))
    }

    /// Where the text ends whose first character stands here.
    fn text(&self, start: usize) -> Walk {
        let mut place = start;
        loop {
            place += crate::cursor::plain_length(&self.line[place..]);
            match (self.at(place), self.at(place + 1)) {
                (None, _) | (Some(b'\\'), None) => return Err(Stop::Told(ENDLESS, start - 1)),
                (Some(b'"'), _) => return Ok(place + 1),
                (Some(b'\\'), Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => place += 2,
                (Some(b'\\'), Some(b'u')) => place += self.unicode_escape(place).ok_or(Stop::Open)?,
                (Some(b'\\'), _) => return Err(Stop::Told("Invalid \\escape", place)),
                _ => return Err(Stop::Told("Invalid control character at", place)),
            }
        }
    }

    /// How long an escape is; none where it is no whole character, or where nothing follows it.
    fn unicode_escape(&self, place: usize) -> Option<usize> {
        let (_, length) = crate::cursor::unicode_escape(&self.line[place..])?;
        self.at(place + length).map(|_| length)
    }
}
