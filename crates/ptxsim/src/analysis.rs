//! A program and the analyses of its code, each of which is made when it is first asked for.

use crate::branches::Branches;
use crate::doubt::Shape;
use crate::origins::Origins;
use crate::program::Program;
use std::ops::Deref;
use std::sync::OnceLock;

pub struct AnalysedProgram {
    program: Program,
    shape: OnceLock<Shape>,
    branches: OnceLock<Branches>,
    origins: OnceLock<Origins>,
}

impl AnalysedProgram {
    pub fn new(program: Program) -> Self {
        AnalysedProgram {
            program,
            shape: OnceLock::new(),
            branches: OnceLock::new(),
            origins: OnceLock::new(),
        }
    }

    /// Returns the facts on which doubts of its launches rest.
    pub fn shape(&self) -> &Shape {
        self.shape.get_or_init(|| Shape::new(&self.program))
    }

    /// Returns its branches, by which accesses by lanes of one warp are judged.
    pub fn branches(&self) -> &Branches {
        self.branches.get_or_init(|| Branches::new(&self.program))
    }

    /// Returns the variables that addresses are computed from, by which accesses out of bounds are found.
    pub fn origins(&self) -> &Origins {
        self.origins.get_or_init(|| Origins::new(&self.program))
    }
}

impl Deref for AnalysedProgram {
    type Target = Program;
    fn deref(&self) -> &Program {
        &self.program
    }
}
