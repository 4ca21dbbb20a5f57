//! Writes the text of a call of `printf` (C11 7.21.6.1, as far as CUDA supports it).

use super::state::*;
use crate::isa::LOCAL_WINDOW;
use crate::num::little_endian;
use crate::regs::lanes;
use crate::report::MAX_PRINTED;

/// The number of bytes of one text, at most, and of characters that a width or a precision may ask for.
const MAX_TEXT: usize = 4096;
const MAX_WIDTH: usize = 512;

/// The texts that a launch has printed.
#[derive(Default)]
pub struct Printed {
    texts: Vec<String>,
    /// The number of texts that were too many to keep.
    left_out: u64,
}

impl Printed {
    fn push(&mut self, text: String) {
        if self.is_full() {
            self.left_out += 1;
        } else {
            self.texts.push(text);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.texts.len() >= MAX_PRINTED
    }

    /// Returns the last texts, the earlier ones first.
    pub fn last(&self, most: usize) -> &[String] {
        &self.texts[self.texts.len().saturating_sub(most)..]
    }

    /// Removes all texts and returns them. One more says how many were left out.
    pub fn take(&mut self) -> Vec<String> {
        let Self {
            mut texts,
            left_out,
        } = std::mem::take(self);
        if left_out > 0 {
            texts.push(format!("... and {left_out} more"));
        }
        texts
    }
}

impl Machine<'_> {
    /// Prints for one lane after the other. The numbers are local addresses of the pointers to the text and to the
    /// arguments. The count of arguments goes to register `count`.
    pub fn print(
        &mut self,
        b: &BlockState,
        w: &mut Warp,
        [text, arguments]: [u32; 2],
        count: u32,
        mask: u32,
    ) {
        for l in lanes(mask) {
            let thread = w.first_thread() + l as u32;
            let pointer = |at: u32| self.local_number(b, thread, at, 8);
            let from = pointer(arguments);
            let argument = |at: u32, bytes: usize| {
                let address = from.wrapping_add(u64::from(at));
                if address >> 32 == LOCAL_WINDOW >> 32 {
                    return self.local_number(b, thread, address as u32, bytes);
                }
                little_endian(self.memory.read(address, bytes).unwrap_or(&[]))
            };
            let string = |address: u64| self.memory.text(address);
            let (line, used) = format(&self.memory.text(pointer(text)), argument, string);
            w.regs.r32[count as usize].0[l] = used;
            self.printed.push(line);
        }
    }
}

/// The flags, the width and the precision of one conversion.
#[derive(Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    long: bool,
}

/// Returns the text, and the number of arguments that it took. `argument` returns the bytes at an offset of the
/// arguments.
fn format(
    text: &[u8],
    argument: impl Fn(u32, usize) -> u64,
    string: impl Fn(u64) -> Vec<u8>,
) -> (String, u32) {
    let (mut out, mut at, mut used) = (String::new(), 0_u32, 0);
    let mut take = |bytes: u32| {
        let from = at.next_multiple_of(bytes);
        at = from + bytes;
        used += 1;
        argument(from, bytes as usize)
    };
    let mut rest = text;
    while let Some((&c, mut tail)) = rest.split_first() {
        if out.len() > MAX_TEXT {
            break;
        }
        if c != b'%' {
            let plain = rest.iter().position(|&c| c == b'%').unwrap_or(rest.len());
            out.push_str(&String::from_utf8_lossy(&rest[..plain]));
            rest = &rest[plain..];
            continue;
        }
        let mut s = Spec::default();
        let mut next = || {
            let (&c, t) = tail.split_first()?;
            tail = t;
            Some(c)
        };
        let mut c = next();
        loop {
            match c {
                Some(b'-') => s.left = true,
                Some(b'+') => s.plus = true,
                Some(b' ') => s.space = true,
                Some(b'#') => s.alternate = true,
                Some(b'0') => s.zero = true,
                _ => break,
            }
            c = next();
        }
        let width = number(&mut c, &mut next, &mut take);
        s.left |= width < 0;
        s.width = (width.unsigned_abs() as usize).min(MAX_WIDTH);
        if c == Some(b'.') {
            c = next();
            let n = number(&mut c, &mut next, &mut take);
            s.precision = usize::try_from(n).ok().map(|n| n.min(MAX_WIDTH));
        }
        let mut halvings = 0;
        while let Some(l @ (b'h' | b'l' | b'q' | b'j' | b'z' | b't' | b'L')) = c {
            s.long |= l != b'h' && l != b'L';
            halvings += u32::from(l == b'h');
            c = next();
        }
        let bytes = if s.long { 8 } else { 4 };
        // An argument has at least four bytes, of which `h` prints two and `hh` one.
        let unused = 64 - ((8 * bytes) >> halvings.min(2));
        match c {
            Some(b'%') => out.push('%'),
            Some(b'd' | b'i') => {
                let v = (take(bytes) << unused) as i64 >> unused;
                integer(&mut out, &s, &v.unsigned_abs().to_string(), "", v < 0, true);
            }
            Some(k @ (b'u' | b'x' | b'X' | b'o')) => {
                let v = take(bytes) << unused >> unused;
                // Zero has no prefix, and an octal one counts as a digit.
                let (digits, prefix) = match k {
                    b'x' => (format!("{v:x}"), "0x"),
                    b'X' => (format!("{v:X}"), "0X"),
                    b'o' if s.alternate => {
                        s.precision = s.precision.map(|digits| digits.max(1));
                        (format!("{}{v:o}", if v == 0 { "" } else { "0" }), "")
                    }
                    b'o' => (format!("{v:o}"), ""),
                    _ => (v.to_string(), ""),
                };
                let prefix = if s.alternate && v != 0 { prefix } else { "" };
                integer(&mut out, &s, &digits, prefix, false, false);
            }
            Some(b'p') => integer(&mut out, &s, &format!("{:x}", take(8)), "0x", false, false),
            Some(b'c') => {
                let text = char::from(take(4) as u8).to_string();
                pad(&mut out, &s, "", &text, false);
            }
            Some(b's') => {
                let text = string(take(8));
                let shown = s.precision.map_or(text.len(), |p| p.min(text.len()));
                let text = String::from_utf8_lossy(&text[..shown]);
                pad(&mut out, &s, "", &text, false);
            }
            Some(k @ (b'f' | b'F' | b'e' | b'E' | b'g' | b'G')) => {
                let v = f64::from_bits(take(8));
                let body = float(v.abs(), &s, k.to_ascii_lowercase());
                let body = if k.is_ascii_uppercase() {
                    body.to_uppercase()
                } else {
                    body
                };
                let negative = v.is_sign_negative() && !v.is_nan();
                let zeros = s.zero && v.is_finite();
                pad(&mut out, &s, sign(&s, negative), &body, zeros);
            }
            // An unknown conversion is printed unchanged.
            _ => {
                let shown = rest.len() - tail.len();
                out.push_str(&String::from_utf8_lossy(&rest[..shown]));
            }
        }
        rest = tail;
    }
    (out, used)
}

/// Reads the number of a width or a precision, which may be an argument.
fn number(
    c: &mut Option<u8>,
    next: &mut dyn FnMut() -> Option<u8>,
    take: &mut dyn FnMut(u32) -> u64,
) -> i32 {
    if *c == Some(b'*') {
        *c = next();
        return take(4) as u32 as i32;
    }
    let mut n = 0_i32;
    while let Some(d) = c.filter(u8::is_ascii_digit) {
        n = n.saturating_mul(10).saturating_add(i32::from(d - b'0'));
        *c = next();
    }
    n
}

/// Returns the sign in front of a number.
fn sign(s: &Spec, negative: bool) -> &'static str {
    match (negative, s.plus, s.space) {
        (true, _, _) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        _ => "",
    }
}

/// Appends an integer, with its sign, prefix and least number of digits.
fn integer(out: &mut String, s: &Spec, digits: &str, prefix: &str, negative: bool, signed: bool) {
    let least = s.precision.unwrap_or(1);
    let digits = match (digits, least) {
        ("0", 0) => String::new(),
        _ => format!("{digits:0>least$}"),
    };
    let start = if signed { sign(s, negative) } else { "" };
    let zeros = s.zero && s.precision.is_none();
    pad(out, s, &format!("{start}{prefix}"), &digits, zeros);
}

/// Appends a text, padded to the width. With `zeros` the padding is zeros between `start` and `rest`.
fn pad(out: &mut String, s: &Spec, start: &str, rest: &str, zeros: bool) {
    let missing = s.width.saturating_sub(start.len() + rest.chars().count());
    match (s.left, zeros) {
        (true, _) => *out += &format!("{start}{rest}{}", " ".repeat(missing)),
        (false, true) => *out += &format!("{start}{}{rest}", "0".repeat(missing)),
        (false, false) => *out += &format!("{}{start}{rest}", " ".repeat(missing)),
    }
}

/// Returns the digits of a float without its sign, for `f`, `e` and `g`.
fn float(v: f64, s: &Spec, kind: u8) -> String {
    if !v.is_finite() {
        return if v.is_nan() { "nan" } else { "inf" }.into();
    }
    let precision = s.precision.unwrap_or(6);
    let scientific = |precision: usize| {
        let text = format!("{v:.precision$e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        (digits.to_string(), exponent)
    };
    let with_exponent =
        |digits: &str, e: i32| format!("{digits}e{}{:02}", if e < 0 { '-' } else { '+' }, e.abs());
    match kind {
        b'f' => format!("{v:.precision$}"),
        b'e' => {
            let (digits, e) = scientific(precision);
            with_exponent(&digits, e)
        }
        _ => {
            let precision = precision.max(1);
            let (digits, e) = scientific(precision - 1);
            let short = |d: &str| {
                if s.alternate || !d.contains('.') {
                    return d.to_string();
                }
                d.trim_end_matches('0').trim_end_matches('.').to_string()
            };
            if e < -4 || e >= precision as i32 {
                with_exponent(&short(&digits), e)
            } else {
                let after = (precision as i32 - 1 - e).max(0) as usize;
                short(&format!("{v:.after$}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, arguments: &[u8]) -> (String, u32) {
        let at = |from: u32, bytes: usize| {
            arguments
                .iter()
                .skip(from as usize)
                .take(bytes)
                .rev()
                .fold(0, |n, b| n << 8 | u64::from(*b))
        };
        format(text.as_bytes(), at, |_| b"text".to_vec())
    }

    /// The expected texts are those that glibc prints.
    #[test]
    fn printf_conversions_print_as_in_c() {
        let int = |text: &str, v: i32| told(text, &v.to_le_bytes()).0;
        assert_eq!(int("<%5d|", -42), "<  -42|");
        assert_eq!(int("<%-5d|", 42), "<42   |");
        assert_eq!(int("%05d %%", -42), "-0042 %");
        assert_eq!(int("%+.3d", 7), "+007");
        assert_eq!(int("%#x", 255), "0xff");
        assert_eq!(int("%08X", -1), "FFFFFFFF");
        assert_eq!(int("%u", -1), "4294967295");
        assert_eq!(int("%c", 65), "A");
        assert_eq!(int("%#x", 0), "0");
        assert_eq!(int("%#o", 0), "0");
        assert_eq!(int("%#.0o", 0), "0");
        assert_eq!(int("%#.3o", 8), "010");
        assert_eq!(int("%hd", 70000), "4464");
        assert_eq!(int("%hhd", 200), "-56");
        assert_eq!(int("%hu", -1), "65535");
        assert_eq!(int("%hhx", -1), "ff");
        let float = |text: &str, v: f64| told(text, &v.to_le_bytes()).0;
        assert_eq!(float("%f", 1.5), "1.500000");
        assert_eq!(float("%8.2f|", -1.257), "   -1.26|");
        assert_eq!(float("%e", 12345.678), "1.234568e+04");
        assert_eq!(float("%g", 0.0001), "0.0001");
        assert_eq!(float("%g", 0.00001234), "1.234e-05");
        assert_eq!(float("%g", 1e10), "1e+10");
        assert_eq!(float("%.3g", 100.0), "100");
        assert_eq!(float("%G", f64::INFINITY), "INF");
        assert_eq!(float("%s %5.2s|", 0.0), "text    te|");
        // A long after an int lies at the next multiple of eight.
        let mut both = vec![1, 0, 0, 0, 9, 9, 9, 9];
        both.extend((-3_i64).to_le_bytes());
        assert_eq!(told("%d %lld", &both), ("1 -3".into(), 2));
        assert_eq!(told("%*d|%y %", &[4, 0, 0, 0, 5, 0, 0, 0]).0, "   5|%y %");
    }
}
