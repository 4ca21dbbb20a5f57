//! A program with what its code alone tells, worked out when it is first asked for.

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

    /// For the doubts of its launches.
    pub fn shape(&self) -> &Shape {
        self.shape.get_or_init(|| Shape::new(&self.program))
    }

    /// For judging accesses by lanes of one warp.
    pub fn branches(&self) -> &Branches {
        self.branches.get_or_init(|| Branches::new(&self.program))
    }

    /// For accesses that lead out of the variable that they were computed from.
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
