//! Compares outputs of captured launches as floats. Captured memory has no types, so the user says which floats it
//! holds. Words that are not such floats must be the same.

use config::{FloatTolerance, Loaded, Whole};
use model::{Case, Determinism, ElemType, Num};

/// Compares the outputs of all cases as floats. Their launches may also differ from each other by this tolerance.
pub fn compare_as_floats(loaded: &mut Loaded, by: FloatTolerance) {
    for case in &mut loaded.plan.cases {
        set(case, by, format!("--tolerance {by}"));
    }
    loaded.gates = super::gates(&loaded.plan);
    loaded.whole = Whole {
        plan: loaded.plan.clone(),
        gates: loaded.gates.clone(),
    };
}

/// Lets the floats of one case differ. `reason` says who allowed it.
pub fn set(case: &mut Case, by: FloatTolerance, reason: String) {
    let (word, bytes) = match by.elem.size() {
        2 => (ElemType::U16, 2),
        _ => (ElemType::U32, 4),
    };
    // Variables of the module have no address.
    let memory = case
        .tensors
        .iter_mut()
        .filter(|tensor| tensor.address.is_some());
    for tensor in memory {
        let length = tensor.len() * tensor.elem.size();
        if length % bytes == 0 {
            tensor.elem = word;
            tensor.dims = vec![length / bytes];
            tensor.floats = Some(by.elem);
        }
    }
    case.tolerance = Some(Num(by.share));
    case.determinism = Determinism::Declared { reason };
}
