//! Why a line is no JSON object, in the words and by the places of Python's parser, which the strict line reader uses.
//!
//! That parser decides by the first thing that it cannot read, and so does this walk. Whatever it leaves open (a depth
//! near the bound, half a surrogate pair, `NaN`) and every object is none of its business: the strict reader says it.

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

/// The reason why a line, which is UTF-8 without blanks around it, is not one JSON object; none where that is left open.
///
/// `names_commas` says that the parser has words of its own for a comma before a closing bracket: since Python 3.13.
pub fn reason(line: &[u8], deepest: usize, names_commas: bool) -> Option<String> {
    if line.iter().filter(|byte| matches!(byte, b'{' | b'[')).count() > deepest {
        return None;
    }
    let reader = Reader { line, names_commas };
    let (what, place) = match reader.value(0) {
        Ok(end) => match reader.blanks(end) {
            end if end < line.len() => ("Extra data", end),
            _ => return kind(line[0]).map(|kind| format!("not an object but {kind}")),
        },
        Err(Stop::Told(what, place)) => (what, place),
        Err(Stop::Open) => return None,
    };
    let before = line[..place].iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
    Some(format!("not JSON: {what} at character {}", before + 1))
}

/// What a value is that begins so; none for an object.
fn kind(first: u8) -> Option<&'static str> {
    match first {
        b'{' => None,
        b'[' => Some("an array"),
        b'"' => Some("a string"),
        b'n' => Some("null"),
        b't' | b'f' => Some("a boolean"),
        _ => Some("a number"),
    }
}

struct Reader<'a> {
    line: &'a [u8],
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

    /// Where the value ends that begins here.
    fn value(&self, place: usize) -> Walk {
        let word = |word: &[u8]| {
            if self.line[place..].starts_with(word) { Ok(place + word.len()) } else { Err(Stop::Told(VALUE, place)) }
        };
        match self.at(place) {
            Some(b'"') => self.text(place + 1),
            Some(b'{') => self.object(place + 1),
            Some(b'[') => self.array(place + 1),
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

    fn object(&self, place: usize) -> Walk {
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
            place = self.value(self.blanks(place + 1))?;
            place = match self.next(place, b'}')? {
                (true, end) => return Ok(end),
                (false, next) => next,
            };
        }
    }

    fn array(&self, place: usize) -> Walk {
        let mut place = self.blanks(place);
        if self.at(place) == Some(b']') {
            return Ok(place + 1);
        }
        loop {
            place = self.value(place)?;
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
