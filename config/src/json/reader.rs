//! The reader itself: recursive descent over a checked `str`, with a bound on the nesting depth.

use super::{Json, Member, Node, Position, quoted};

/// Nesting that no configuration needs and that recursion can bear.
pub(crate) const DEPTH_MAX: usize = 32;

/// What is wrong with the text at a position. Reading stops at the first one: what follows a syntax error is guesswork.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SyntaxProblem {
    pub(crate) at: Position,
    pub(crate) problem: String,
}

/// Reads one JSON value and nothing after it. `Ok(None)` means that the text holds no value at all.
pub(crate) fn read(text: &str) -> Result<Option<Node>, SyntaxProblem> {
    let mut reader = Reader { rest: text, at: Position { line: 1, column: 1 } };
    reader.skip_blank()?;
    if reader.rest.is_empty() {
        return Ok(None);
    }
    let node = reader.value(0)?;
    reader.skip_blank()?;
    match reader.peek() {
        None => Ok(Some(node)),
        Some(found) => reader.fail(format!("the value ended, but {} follows it", named(Some(found)))),
    }
}

struct Reader<'a> {
    rest: &'a str,
    at: Position,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let taken = characters.next()?;
        self.rest = characters.as_str();
        if taken == '\n' {
            self.at = Position { line: self.at.line.saturating_add(1), column: 1 };
        } else {
            self.at.column = self.at.column.saturating_add(1);
        }
        Some(taken)
    }

    fn fail<T>(&self, problem: impl Into<String>) -> Result<T, SyntaxProblem> {
        fail_at(self.at, problem)
    }

    fn skip_blank(&mut self) -> Result<(), SyntaxProblem> {
        loop {
            if self.rest.starts_with("//") {
                while !matches!(self.peek(), None | Some('\n')) {
                    self.take();
                }
            } else if self.rest.starts_with("/*") {
                self.skip_block_comment()?;
            } else if matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
                self.take();
            } else {
                return Ok(());
            }
        }
    }

    fn skip_block_comment(&mut self) -> Result<(), SyntaxProblem> {
        let opened = self.at;
        self.take();
        self.take();
        while !self.rest.starts_with("*/") {
            if self.take().is_none() {
                return fail_at(opened, "this comment is never closed with */");
            }
        }
        self.take();
        self.take();
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Node, SyntaxProblem> {
        let at = self.at;
        let value = match self.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"') => Json::Text(self.string()?),
            Some('-' | '0'..='9') => self.number()?,
            Some('a'..='z' | 'A'..='Z') => self.word()?,
            found => return self.fail(format!("expected a value, found {}", named(found))),
        };
        Ok(Node { at, value })
    }

    fn object(&mut self, depth: usize) -> Result<Json, SyntaxProblem> {
        self.check_depth(depth)?;
        let opened = self.at;
        self.take();
        let mut members = Vec::new();
        self.skip_blank()?;
        if self.peek() == Some('}') {
            self.take();
            return Ok(Json::Object(members));
        }
        loop {
            let key_at = self.at;
            if self.peek() != Some('"') {
                return self.fail(format!("expected a key in double quotes, found {}", named(self.peek())));
            }
            let key = self.string()?;
            self.skip_blank()?;
            if self.peek() != Some(':') {
                return self.fail(format!("expected ':' after the key {}, found {}", quoted(&key), named(self.peek())));
            }
            self.take();
            self.skip_blank()?;
            let value = self.value(depth + 1)?;
            members.push(Member { key, key_at, value });
            if !self.another('}', opened)? {
                return Ok(Json::Object(members));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json, SyntaxProblem> {
        self.check_depth(depth)?;
        let opened = self.at;
        self.take();
        let mut items = Vec::new();
        self.skip_blank()?;
        if self.peek() == Some(']') {
            self.take();
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if !self.another(']', opened)? {
                return Ok(Json::Array(items));
            }
        }
    }

    /// Consumes `,` (true: another element follows) or `close` (false).
    fn another(&mut self, close: char, opened: Position) -> Result<bool, SyntaxProblem> {
        self.skip_blank()?;
        match self.peek() {
            Some(',') => {
                let comma = self.at;
                self.take();
                self.skip_blank()?;
                if self.peek() == Some(close) {
                    return fail_at(comma, format!("a comma before '{close}' is not allowed"));
                }
                Ok(true)
            }
            Some(found) if found == close => {
                self.take();
                Ok(false)
            }
            found => self.fail(format!(
                "expected ',' or '{close}' (opened at line {}, column {}), found {}",
                opened.line,
                opened.column,
                named(found)
            )),
        }
    }

    fn check_depth(&self, depth: usize) -> Result<(), SyntaxProblem> {
        if depth >= DEPTH_MAX {
            return self.fail(format!("nested deeper than {DEPTH_MAX} levels"));
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, SyntaxProblem> {
        let opened = self.at;
        self.take();
        let mut text = String::new();
        loop {
            let at = self.at;
            match self.take() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape(at)?),
                Some('\n' | '\r') | None => return fail_at(opened, "this string is not closed on its line"),
                Some(control) if control < ' ' => {
                    return fail_at(
                        at,
                        format!("a control character in a string is written \\u{:04x}", u32::from(control)),
                    );
                }
                Some(character) => text.push(character),
            }
        }
    }

    fn escape(&mut self, at: Position) -> Result<char, SyntaxProblem> {
        Ok(match self.take() {
            Some('"') => '"',
            Some('\\') => '\\',
            Some('/') => '/',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => return self.unicode_escape(at),
            found => return fail_at(at, format!("unknown escape: a backslash before {}", named(found))),
        })
    }

    fn unicode_escape(&mut self, at: Position) -> Result<char, SyntaxProblem> {
        let first = self.four_hex_digits(at)?;
        let code = match first {
            0xd800..=0xdbff => {
                let second = if self.rest.starts_with("\\u") {
                    self.take();
                    self.take();
                    self.four_hex_digits(at)?
                } else {
                    0
                };
                if !(0xdc00..=0xdfff).contains(&second) {
                    return fail_at(at, "half of a surrogate pair");
                }
                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            }
            other => other,
        };
        match char::from_u32(code) {
            Some(character) => Ok(character),
            None => fail_at(at, "half of a surrogate pair"),
        }
    }

    fn four_hex_digits(&mut self, at: Position) -> Result<u32, SyntaxProblem> {
        let mut code = 0;
        for _ in 0..4 {
            match self.peek().and_then(|character| character.to_digit(16)) {
                Some(digit) => code = code * 16 + digit,
                None => return fail_at(at, "\\u needs four hexadecimal digits"),
            }
            self.take();
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<Json, SyntaxProblem> {
        let at = self.at;
        let mut text = String::new();
        while let Some(character @ ('0'..='9' | 'a'..='z' | 'A'..='Z' | '+' | '-' | '.' | '_')) = self.peek() {
            text.push(character);
            self.take();
        }
        if is_number(&text) {
            return Ok(Json::Number(text));
        }
        fail_at(at, format!("{} is not a number (a unit belongs into the key, not the value)", quoted(&text)))
    }

    fn word(&mut self) -> Result<Json, SyntaxProblem> {
        let at = self.at;
        let mut text = String::new();
        while let Some(character @ ('0'..='9' | 'a'..='z' | 'A'..='Z' | '_')) = self.peek() {
            text.push(character);
            self.take();
        }
        match text.as_str() {
            "null" => Ok(Json::Null),
            "true" => Ok(Json::Bool(true)),
            "false" => Ok(Json::Bool(false)),
            _ => fail_at(at, format!("{} is no value; a string needs double quotes", quoted(&text))),
        }
    }
}

/// The number grammar of JSON: no leading zeros, no bare point, no leading plus.
fn is_number(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

fn named(found: Option<char>) -> String {
    match found {
        None => "the end of the file".to_owned(),
        Some('\'') => "a single quote (JSON uses double quotes)".to_owned(),
        Some(character) if character.is_control() => format!("the character U+{:04X}", u32::from(character)),
        Some(character) => format!("'{character}'"),
    }
}

fn fail_at<T>(at: Position, problem: impl Into<String>) -> Result<T, SyntaxProblem> {
    Err(SyntaxProblem { at, problem: problem.into() })
}
