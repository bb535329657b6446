//! Arithmetic over results: `100 * (1 - pgmajfault / max(ops, 1))`.

/// A formula.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Formula {
    /// A number.
    Number(f64),
    /// A quantity.
    Name(String),
    /// Two parts.
    Of(Operator, Box<Formula>, Box<Formula>),
    /// Rounded down.
    Floor(Box<Formula>),
}

/// What two parts are joined by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
    Min,
    Max,
}

impl Operator {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Plus => a + b,
            Self::Minus => a - b,
            Self::Times => a * b,
            Self::Over => a / b,
            Self::Min => a.min(b),
            Self::Max => a.max(b),
        }
    }
}

/// Most parts inside each other: what is read must not exhaust the stack.
const DEPTH: u32 = 64;

/// What is left to read.
struct Text<'a> {
    rest: &'a str,
    depth: u32,
}

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut left = Text {
            rest: text,
            depth: 0,
        };
        let formula = left.sum()?;
        match left.peek() {
            None => Ok(formula),
            Some(_) => Err(format!("'{}' is not expected there", left.rest.trim())),
        }
    }

    /// Its value, where `value` gives that of a name.
    ///
    /// # Errors
    /// That of the first name without a value.
    pub fn value<E>(&self, value: &dyn Fn(&str) -> Result<f64, E>) -> Result<f64, E> {
        Ok(match self {
            Self::Number(x) => *x,
            Self::Name(name) => value(name)?,
            Self::Of(operator, a, b) => operator.of(a.value(value)?, b.value(value)?),
            Self::Floor(a) => a.value(value)?.floor(),
        })
    }

    /// The quantities in it.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Name(name) => vec![name],
            Self::Of(_, a, b) => [a.names(), b.names()].concat(),
            Self::Floor(a) => a.names(),
        }
    }
}

impl Text<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, c: char) -> bool {
        let there = self.peek() == Some(c);
        if there {
            self.rest = &self.rest[c.len_utf8()..];
        }
        there
    }

    fn need(&mut self, c: char) -> Result<(), String> {
        match self.take(c) {
            true => Ok(()),
            false => Err(format!("'{c}' is missing before '{}'", self.rest.trim())),
        }
    }

    fn sum(&mut self) -> Result<Formula, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("more than {DEPTH} brackets inside each other"));
        }
        let mut all = self.product()?;
        loop {
            let operator = match () {
                () if self.take('+') => Operator::Plus,
                () if self.take('-') => Operator::Minus,
                () => break,
            };
            all = Formula::Of(operator, all.into(), self.product()?.into());
        }
        self.depth -= 1;
        Ok(all)
    }

    fn product(&mut self) -> Result<Formula, String> {
        let mut all = self.part()?;
        loop {
            let operator = match () {
                () if self.take('*') => Operator::Times,
                () if self.take('/') => Operator::Over,
                () => return Ok(all),
            };
            all = Formula::Of(operator, all.into(), self.part()?.into());
        }
    }

    fn part(&mut self) -> Result<Formula, String> {
        match self.peek() {
            Some('(') => {
                self.take('(');
                let inner = self.sum()?;
                self.need(')')?;
                Ok(inner)
            }
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.name(),
            Some(c) => Err(format!(
                "'{c}' is not expected there; write a number, a name or '('"
            )),
            None => Err("it ends too early".into()),
        }
    }

    fn cut(&mut self, good: impl Fn(char, char) -> bool) -> String {
        let mut before = ' ';
        let end = self.rest.find(|c: char| {
            let ends = !good(before, c);
            before = c;
            ends
        });
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let word = word.to_owned();
        self.rest = rest;
        word
    }

    fn number(&mut self) -> Result<Formula, String> {
        let sign = |before: char, c: char| matches!(before, 'e' | 'E') && matches!(c, '+' | '-');
        let word = self
            .cut(|before, c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E') || sign(before, c));
        let number = word.parse().map(Formula::Number);
        number.map_err(|_| format!("'{word}' is no number"))
    }

    /// A quantity, or a function. Names of groups may have a `-`: as an operator it stands after a space.
    fn name(&mut self) -> Result<Formula, String> {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let name = self.cut(|_, c| inner(c));
        if self.peek() != Some('(') {
            return Ok(Formula::Name(name));
        }
        self.take('(');
        let first = self.sum()?;
        let formula = match name.as_str() {
            "floor" => Formula::Floor(first.into()),
            "min" | "max" => {
                let operator = match name.as_str() {
                    "min" => Operator::Min,
                    _ => Operator::Max,
                };
                self.need(',')?;
                Formula::Of(operator, first.into(), self.sum()?.into())
            }
            _ => {
                return Err(format!(
                    "there is no function '{name}'; known: min, max, floor"
                ))
            }
        };
        self.need(')')?;
        Ok(formula)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        let names = |name: &str| match name {
            "ops" => Ok(8.0),
            "zipf.ops" => Ok(2.0),
            "my-group.ops" => Ok(5.0),
            other => Err(format!("no {other}")),
        };
        Formula::parse(text)?.value(&names)
    }

    #[test]
    fn arithmetic() {
        for (text, expected) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("10 - 2 - 3", 5.0),
            ("ops / zipf.ops / 2", 2.0),
            ("100 * (1 - 2 / ops)", 75.0),
            ("max(ops, 9) + min(ops, 9)", 17.0),
            ("floor(ops / 3)", 2.0),
            ("1e3 + 1.5e-1", 1000.15),
            ("my-group.ops - 1", 4.0),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "ends too early"),
            ("1 +", "ends too early"),
            ("(1", "')' is missing"),
            ("1 2", "'2' is not expected"),
            ("root(2)", "no function 'root'"),
            ("max(1)", "',' is missing"),
            ("1.2.3", "no number"),
            ("%", "'%'"),
            ("none", "no none"),
        ] {
            let error = value(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let deep = "(".repeat(100_000);
        assert!(value(&deep).unwrap_err().contains("brackets"));
    }
}
