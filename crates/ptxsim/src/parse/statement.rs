//! Reads bodies of functions: labels, instructions, operands, declarations.

use super::ast::*;
use super::scan::{is_name_start, refuse};
use super::{ParseError, Parser};

/// The depth of braces within braces, at most. Names are looked for outwards, so that depth costs time.
const MAX_DEPTH: u32 = 256;

impl Parser<'_> {
    /// Reads everything behind the opening brace, up to and with the closing one.
    pub(super) fn body(&mut self) -> Result<Vec<Statement>, ParseError> {
        let mut out = Vec::new();
        let mut depth = 0_u32;
        loop {
            match self.s.peek()? {
                None => return self.s.error("a `}` is missing before the end of the text"),
                Some(b'{') => {
                    self.s.expect(b'{')?;
                    depth += 1;
                    if depth > MAX_DEPTH {
                        return self
                            .s
                            .error(format!("braces are nested deeper than {MAX_DEPTH}"));
                    }
                    out.push(Statement::Open);
                }
                Some(b'}') => {
                    self.s.expect(b'}')?;
                    if depth == 0 {
                        return Ok(out);
                    }
                    depth -= 1;
                    out.push(Statement::Close);
                }
                Some(b';') => self.s.expect(b';')?,
                Some(b'.') => self.directive(&mut out)?,
                Some(b'@') => {
                    self.s.expect(b'@')?;
                    let negated = self.s.take_if(b'!')?;
                    let register = self.s.name()?.to_string();
                    let instruction = self.instruction(Some(Guard { register, negated }))?;
                    out.push(Statement::Instruction(instruction));
                }
                Some(c) if is_name_start(c) => self.label_or_instruction(&mut out)?,
                Some(_) => {
                    let found = self.s.describe();
                    return self.s.error(format!("expected a statement, found {found}"));
                }
            }
        }
    }

    /// Reads a label, a table of labels, or an instruction without a guard.
    fn label_or_instruction(&mut self, out: &mut Vec<Statement>) -> Result<(), ParseError> {
        let start = self.s;
        let pos = self.s.pos();
        let name = self.s.name()?.to_string();
        if self.s.take_if(b':')? && self.s.peek()? != Some(b':') {
            self.s.skip()?;
            let before = self.s;
            if self.s.peek()? == Some(b'.') {
                match self.s.directive()? {
                    ".branchtargets" => {
                        let mut targets = vec![self.s.name()?.to_string()];
                        while self.s.take_if(b',')? {
                            targets.push(self.s.name()?.to_string());
                        }
                        self.s.expect(b';')?;
                        out.push(Statement::BranchTargets(name, targets));
                        return Ok(());
                    }
                    ".callprototype" | ".calltargets" => {
                        // These are left out: the calls themselves have their arguments, and the module has the
                        // functions whose addresses it takes.
                        self.s.skip_to_semicolon()?;
                        return Ok(());
                    }
                    _ => self.s = before,
                }
            }
            out.push(Statement::Label(name, pos));
            return Ok(());
        }
        self.s = start;
        let instruction = self.instruction(None)?;
        out.push(Statement::Instruction(instruction));
        Ok(())
    }

    fn directive(&mut self, out: &mut Vec<Statement>) -> Result<(), ParseError> {
        let start = self.s;
        match self.s.directive()? {
            ".loc" => self.loc(),
            ".pragma" => self.s.skip_to_semicolon(),
            ".reg" | ".local" | ".shared" | ".param" | ".global" | ".const" => {
                self.s = start;
                out.extend(self.variables()?.into_iter().map(Statement::Variable));
                Ok(())
            }
            other => refuse(
                start.pos(),
                format!("directive `{other}` is not allowed in a function"),
            ),
        }
    }

    fn instruction(&mut self, guard: Option<Guard>) -> Result<Instruction, ParseError> {
        self.s.skip()?;
        let pos = self.s.pos();
        let words: Vec<String> = self.s.dotted()?.split('.').map(str::to_string).collect();
        let mut operands = Vec::new();
        while !self.s.take_if(b';')? {
            if !operands.is_empty() {
                self.s.expect(b',')?;
            }
            operands.push(self.operand()?);
        }
        self.reading.instruction();
        Ok(Instruction {
            guard,
            words,
            operands,
            pos,
            loc: self.loc,
        })
    }

    fn operand(&mut self) -> Result<Operand, ParseError> {
        match self.s.peek()? {
            Some(b'{') => Ok(Operand::Vector(self.several(b'{', b'}')?)),
            Some(b'(') => Ok(Operand::List(self.several(b'(', b')')?)),
            Some(b'[') => self.address(),
            _ => self.scalar(),
        }
    }

    /// Reads scalars between brackets. They are not read by `operand`, because nothing nests in PTX.
    fn several(&mut self, open: u8, close: u8) -> Result<Vec<Operand>, ParseError> {
        self.s.expect(open)?;
        let mut all = Vec::new();
        while !self.s.take_if(close)? {
            if !all.is_empty() {
                self.s.expect(b',')?;
            }
            all.push(self.scalar()?);
        }
        Ok(all)
    }

    fn scalar(&mut self) -> Result<Operand, ParseError> {
        if self.s.take_if(b'!')? {
            return Ok(Operand::Not(self.s.name()?.to_string()));
        }
        if self.s.starts_number()? {
            return Ok(Operand::Number(self.s.number()?));
        }
        let name = format!("{}{}", self.s.name()?, self.s.dotted_suffix());
        if self.s.take_if(b'|')? {
            return Ok(Operand::Pair(name, self.s.name()?.to_string()));
        }
        if matches!(self.s.peek()?, Some(b'+' | b'-')) {
            return Ok(Operand::Offset(name, self.optional_offset()?));
        }
        Ok(Operand::Name(name))
    }

    fn address(&mut self) -> Result<Operand, ParseError> {
        self.s.expect(b'[')?;
        let base = if self.s.starts_number()? {
            None
        } else {
            Some(self.s.name()?.to_string())
        };
        let offset = if base.is_none() {
            self.integer(|_| true, "an address must be an integer")? as i64
        } else {
            self.optional_offset()?
        };
        if let Some(base) = &base
            && offset == 0
            && self.s.peek()? == Some(b',')
        {
            return self.element(base.clone());
        }
        self.s.expect(b']')?;
        Ok(Operand::Address { base, offset })
    }

    /// Reads what follows the name of a texture, a surface or a tensor.
    fn element(&mut self, base: String) -> Result<Operand, ParseError> {
        let mut at = Vec::new();
        while self.s.take_if(b',')? {
            at.push(match self.s.peek()? {
                Some(b'{') => Operand::Vector(self.several(b'{', b'}')?),
                _ => self.scalar()?,
            });
        }
        self.s.expect(b']')?;
        Ok(Operand::Element { base, at })
    }
}
