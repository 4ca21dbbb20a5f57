use super::*;
use proptest::prelude::*;

const HEADER: &str = ".version 8.4\n.target sm_90\n.address_size 64\n";

fn fixtures() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "ptx") {
            continue;
        }
        all.push((
            path.display().to_string(),
            std::fs::read_to_string(&path).unwrap(),
        ));
    }
    assert!(!all.is_empty());
    all
}

#[test]
fn real_modules_parse() {
    for (name, text) in fixtures() {
        let module = parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            module
                .functions
                .iter()
                .any(|f| f.is_entry && f.body.is_some()),
            "{name}"
        );
        assert!(!module.lines.files.is_empty(), "{name}: .file is kept");
    }
}

#[test]
fn every_truncation_is_an_error_or_a_smaller_module() {
    for (name, text) in fixtures() {
        let whole = parse(&text).unwrap();
        let step = (text.len() / 400).max(1);
        for end in (0..text.len()).step_by(step) {
            if let Some(part) = text.get(..end)
                && let Ok(module) = parse(part)
            {
                assert!(
                    module.functions.len() <= whole.functions.len(),
                    "{name} cut at {end}"
                );
            }
        }
    }
}

#[test]
fn a_message_has_line_and_column() {
    let text = format!("{HEADER}.visible .entry k()\n{{\n  mov.u32 %r1 %r2;\n}}\n");
    let error = parse(&text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "PTX line 6, column 15: expected `,`, found `%`"
    );
}

#[test]
fn locations_and_guards_are_kept() {
    let text = format!(
        "{HEADER}.entry k(.param .u64 p)\n{{ .reg .pred %p<2>;\n .loc 2 7 3, function_name $x+4, inlined_at 1 9 1\n @!%p1 bra $L_1;\n$L_1: ret; }}"
    );
    let module = parse(&text).unwrap();
    let body = module.functions[0].body.as_ref().unwrap();
    let Statement::Instruction(bra) = &body[1] else {
        panic!("{body:?}")
    };
    assert_eq!(
        module.lines.place(bra.loc).as_deref(),
        Some("?:7 inlined at ?:9")
    );
    assert_eq!(
        bra.guard,
        Some(Guard {
            register: "%p1".into(),
            negated: true
        })
    );
    assert_eq!(
        body[2],
        Statement::Label("$L_1".into(), Pos { line: 8, column: 1 })
    );
}

#[test]
fn numbers() {
    let value = |text: &str| Scanner::new(text).number();
    assert_eq!(value("0f3F800000"), Ok(Number::F32(0x3f80_0000)));
    assert_eq!(value("0d3FF0000000000000"), Ok(Number::F64(1.0)));
    assert_eq!(value("-1"), Ok(Number::Int(u64::MAX)));
    assert_eq!(value("0x1fU"), Ok(Number::Int(31)));
    assert_eq!(value("017"), Ok(Number::Int(15)));
    assert_eq!(value("1.5e-1"), Ok(Number::F64(0.15)));
    assert!(
        value("0f12").is_err() && value("99999999999999999999").is_err() && value("x").is_err()
    );
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn arbitrary_bodies_never_panic(body in "[-a-z0-9%$.,;:{}()\\[\\]@!|+<>_ \n]{0,200}") {
        let _ = parse(&format!("{HEADER}.entry k() {{ {body}"));
    }

    #[test]
    fn a_changed_character_never_panics(at in 0usize..9000, c in any::<char>()) {
        let text = include_str!("../../tests/fixtures/reduce.ptx");
        let at = at.min(text.len() - 1);
        let _ = parse(&format!("{}{c}{}", &text[..at], &text[at + 1..]));
    }
}

/// Triton 3.9 wrote this for two loads, in lines 9 and 10 of a file.
#[test]
fn lines_that_llvm_counts_within_inline_assembly_are_not_the_sources() {
    let body = "\
        .loc 1 9 9 // add.py:9:9\n// begin inline asm\n\
        .loc 1 9 9\n mov.u32 %r1, 0x0;\n .loc 1 10 9\n mov.u32 %r2, 0x0;\n\
        .loc 1 11 9\n mov.u32 %r3, 0x0;\n\n// end inline asm\n\
        // begin inline asm\n .loc 1 9 9\n mov.u32 %r4, 0x0;\n .loc 1 10 9\n mov.u32 %r5, 0x0;\n// end inline asm\n\
        .loc 1 10 17\n mov.u32 %r6, 0x0;\n .loc 1 11 9\n mov.u32 %r7, 0x0;\n";
    let lines = |body: &str| -> Vec<u32> {
        let text = format!(
            "{HEADER}.entry k()\n{{\n.reg .b32 %r<8>;\n{body}ret;\n}}\n.file 1 \"add.py\"\n"
        );
        let module = parse(&text).unwrap();
        let body = module.functions[0].body.as_deref().unwrap();
        body.iter()
            .filter_map(|statement| match statement {
                Statement::Instruction(it) => Some(module.lines.at(it.loc).line),
                _ => None,
            })
            .collect()
    };
    assert_eq!(lines(body), [9, 9, 9, 9, 9, 10, 11, 11]);
    // Without the marks each `.loc` is as it says.
    let plain = body.replace("inline", "some");
    assert_eq!(lines(&plain), [9, 10, 11, 9, 10, 10, 11, 11]);
}

/// The header cuda_fp16.hpp writes directives like this.
#[test]
fn directives_may_touch() {
    let text = ".version 9.0\n.target sm_90\n.address_size 64\n.visible.entry k(.param.u64 p)\n{\n{.reg.b16 a, b;\n mov.b16 a,0X5CB0U;}\nret;\n}\n";
    let module = parse(text).unwrap();
    let body = module.functions[0].body.as_deref().unwrap();
    assert_eq!(
        body.iter()
            .filter(|s| matches!(s, Statement::Variable(v) if v.ty == Ty::B16))
            .count(),
        2
    );
    let wrong = parse(&text.replace(".reg.b16", ".reg.b17")).unwrap_err();
    assert!(
        wrong.to_string().contains("`.b17` is not a supported type"),
        "{wrong}"
    );
}
