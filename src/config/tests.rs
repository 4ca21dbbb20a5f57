use super::*;

fn anything(path: &str) -> Option<Entry> {
    Some(if path.contains('.') && path != "." {
        Entry::File
    } else {
        Entry::Directory
    })
}

fn read(text: &str) -> std::result::Result<Resolved, String> {
    parse("gates.yaml", text, &anything).map_err(|diagnostic| diagnostic.to_string())
}

#[test]
fn the_template_loads() {
    let resolved = read(template()).unwrap();
    println!("{}", serde_json::to_string_pretty(&resolved.plan).unwrap());
    println!("{}", serde_json::to_string_pretty(&resolved.gates).unwrap());
}

#[test]
fn own() {
    let resolved = read(include_str!("../../gates.yaml")).unwrap_or_else(|e| panic!("{e}"));
    println!(
        "{} {} {}",
        resolved.plan.units.len(),
        resolved.plan.cases.len(),
        resolved.gates.len()
    );
}
