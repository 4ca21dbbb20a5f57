//! Where in gates.yaml something of a case was written, for what is known only once the case is built.

use super::tree::Tree;
use super::yaml::{Source, Spot};
use verdict::model::UnitId;

/// A file of gates as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    pub file: String,
    pub text: String,
}

impl Places {
    /// `gates.yaml:17` of an argument of a unit, or of the list of them; the file where the text does not say.
    pub fn argument(&self, unit: &UnitId, step: usize, argument: Option<usize>) -> String {
        let kernel = ["kernels", &unit.kernel];
        let variant = ["kernels", &unit.kernel, "variants", &unit.variant];
        let found = Source::parse(&self.file, &self.text)
            .ok()
            .and_then(|source| {
                let root = source.root();
                let list = |path: &[&str]| {
                    let owner = path.iter().try_fold(root, |node, key| child(node, key))?;
                    let step = child(owner, "sequence").and_then(|steps| item(steps, step));
                    child(step.unwrap_or(owner), "args")
                };
                let list = list(&variant).or_else(|| list(&kernel))?;
                let found = argument.and_then(|at| item(list, at)).unwrap_or(list);
                Some(found.at.line())
            });
        match found {
            Some(line) => format!("{}:{line}", self.file),
            None => self.file.clone(),
        }
    }
}

fn child<'a>(node: &'a Spot<Tree>, key: &str) -> Option<&'a Spot<Tree>> {
    match &node.value {
        Tree::Map(map) => map.get(key),
        Tree::Null | Tree::Scalar(_) | Tree::List(_) => None,
    }
}

fn item(node: &Spot<Tree>, at: usize) -> Option<&Spot<Tree>> {
    match &node.value {
        Tree::List(items) => items.get(at),
        Tree::Null | Tree::Scalar(_) | Tree::Map(_) => None,
    }
}
