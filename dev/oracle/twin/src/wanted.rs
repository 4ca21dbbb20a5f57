//! Differences that are wanted since the simulator asks one table of instructions, where its classifiers had drifted apart.

/// Returns true if a line of a finding or a fault differs from the old one on purpose:
/// - what `ldmatrix`, `stmatrix`, `wmma` and surfaces do to memory;
/// - the buffer that the address of a fragment was computed from;
/// - `free` accesses an address;
/// - what accesses no memory (a fence, a product of registers) between a meeting and a jump back leaves lanes in one iteration.
pub fn says_more(new: &str, old: &str) -> bool {
    let (new, old) = (new.trim(), old.trim());
    let names_kind = old.strip_prefix("\"Other ").is_some_and(|by| {
        ["\"Read ", "\"Write "]
            .iter()
            .any(|kind| new.strip_prefix(kind) == Some(by))
    });
    let names_buffer = new
        .split_once("; it was computed from the address of")
        .is_some_and(|(before, _)| {
            let behind = old.strip_prefix(before);
            behind.is_some_and(|behind| behind.starts_with(" at ") && new.ends_with(behind))
        });
    let frees = new.contains("the address of this access")
        && new.replace("the address of this access", "what this does") == old;
    let is_hazard = (new, old) == ("kind: \"WarpHazard\",", "kind: \"WarpRace\",")
        || old
            .split_once("its lanes can be in different iterations, and ")
            .is_some_and(|(_, behind)| new.ends_with(behind));
    names_kind || names_buffer || frees || is_hazard
}

/// Returns true for a program in which accesses can be on both sides of what nothing is joined across, and used to be joined:
/// a barrier of the cluster, the heap, a changed tensor map.
pub fn parts_accesses(text: &str) -> bool {
    ["barrier.cluster", "malloc", "free", "tensormap.replace"]
        .iter()
        .any(|word| text.contains(word))
}

/// Returns true for a program that may store an address in a way that used to be overlooked.
pub fn stores_in_other_ways(text: &str) -> bool {
    ["stmatrix", "wmma.store", "st.async", "red.async", "sust"]
        .iter()
        .any(|word| text.contains(word))
}
