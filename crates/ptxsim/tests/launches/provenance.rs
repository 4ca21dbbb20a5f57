//! An access outside of all buffers names the one whose address it was computed from.

use crate::common::*;
use ptxsim::*;

/// `k(a, b, n)`: one thread, with `a` in %d0, `b` in %d1, n in %w0; 1000 bytes each, `a` before `b`.
fn fault(body: &str, n: i32) -> String {
    let text = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n.global .align 4 .b8 table[64];\n\
        .visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)\n{{\n\
        .reg .pred %p<4>;\n.reg .b32 %w<9>;\n.reg .b64 %d<9>;\n\
        ld.param.u64 %d0, [a];\nld.param.u64 %d1, [b];\nld.param.u32 %w0, [n];\n\
        cvta.to.global.u64 %d0, %d0;\ncvta.to.global.u64 %d1, %d1;\nmul.wide.s32 %d2, %w0, 4;\n{body}\nret;\n}}\n"
    );
    let module = load(&text);
    let kernel = module.kernel("k").unwrap();
    let mut memory = Memory::default();
    let a = put(&mut memory, "a", &[0; 1000]);
    let b = put(&mut memory, "b", &[0; 1000]);
    let params = params(kernel, &[Arg::Ptr(a), Arg::Ptr(b), Arg::I32(n)]);
    let run = launch(kernel, [1; 3], [1; 3], 0, &params, &mut memory, limits());
    run.unwrap_err().message
}

/// Far enough past `a` that `b` is nearer.
const FAR: i32 = 30_000;

const FROM_A: &str = "it was computed from the address of `a` (1000 bytes at 0x";

#[test]
fn the_buffer_of_the_pointer_is_named_beside_the_nearest() {
    let read = "add.s64 %d3, %d0, %d2;\nld.global.u32 %w1, [%d3];";
    let message = fault(read, FAR);
    assert!(message.contains("bytes before `b`"), "{message}");
    assert!(message.contains(FROM_A), "{message}");
    let message = fault("add.s64 %d3, %d0, %d2;\nst.global.u32 [%d3+8], %w1;", FAR);
    assert!(message.contains(FROM_A), "{message}");
    let message = fault(
        "add.s64 %d3, %d0, %d2;\natom.global.add.u32 %w1, [%d3], 1;",
        FAR,
    );
    assert!(message.contains(FROM_A), "{message}");
}

#[test]
fn names_the_nearest_buffer_once() {
    let message = fault("add.s64 %d3, %d0, %d2;\nld.global.u32 %w1, [%d3];", 250);
    assert!(
        message.contains("directly past the end of `a`"),
        "{message}"
    );
    assert!(!message.contains("computed"), "{message}");
}

/// A pointer that a loop moves has two definitions, of one buffer.
#[test]
fn a_pointer_that_a_loop_moves_keeps_its_buffer() {
    let body = "L: ld.global.u32 %w1, [%d0];\nadd.s64 %d0, %d0, %d2;\nbra L;";
    let message = fault(body, FAR);
    assert!(message.contains(FROM_A), "{message}");
}

#[test]
fn a_choice_of_two_buffers_names_both() {
    let body = "setp.gt.s32 %p0, %w0, 0;\nselp.b64 %d3, %d0, %d1, %p0;\nmul.lo.s64 %d2, %d2, 10;\n\
        add.s64 %d3, %d3, %d2;\nld.global.u32 %w1, [%d3];";
    let message = fault(body, FAR);
    assert!(
        message.contains("`a` (1000 bytes at 0x") && message.contains(" or `b` ("),
        "{message}"
    );
}

#[test]
fn a_variable_of_the_module_is_named() {
    let body = "mov.u64 %d3, table;\nmul.lo.s64 %d2, %d2, 1000000;\nadd.s64 %d3, %d3, %d2;\nld.global.u32 %w1, [%d3];";
    let message = fault(body, FAR);
    assert!(
        message.contains("from the address of `table` (64 bytes"),
        "{message}"
    );
}

/// A number that was never an address says nothing of a buffer.
#[test]
fn a_number_has_no_buffer() {
    let message = fault(
        "mov.u64 %d3, 64;\nadd.s64 %d3, %d3, %d2;\nld.global.u32 %w1, [%d3];",
        FAR,
    );
    assert!(
        message.contains("out of bounds") && !message.contains("computed"),
        "{message}"
    );
}
