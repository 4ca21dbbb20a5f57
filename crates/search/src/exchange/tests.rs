use super::*;

/// As Kernel Tuner 1.x writes it: the old way of an error, and the new one.
const CACHE: &str = r#"{
"device_name": "a GPU",
"kernel_name": "copy",
"problem_size": [4096, 4096],
"tune_params_keys": ["threads", "cached", "layout", "share"],
"tune_params": {"threads": [32, 64], "cached": [true, false], "layout": ["rows", "columns"], "share": [0.5, 1.0]},
"objective": "time",
"cache": {
"64,True,rows,0.5": {"threads": 64, "cached": true, "layout": "rows", "share": 0.5, "time": 1.25, "times": [1.0, 1.5], "compile_time": 900.5, "verification_time": 0, "benchmark_time": 12.5, "GFLOP/s": 7.0, "strategy_time": 0, "framework_time": 1.5, "timestamp": "2026-11-22 09:54:05+00:00"},
"32,True,rows,1.0": {"threads": 32, "cached": true, "layout": "rows", "share": 1.0, "time": "RuntimeFailedConfig"},
"32,False,columns,0.5": {"threads": 32, "cached": false, "layout": "columns", "share": 0.5, "time": "InvalidConfig", "__error__": "CompilationFailedConfig"}}
}"#;

#[test]
fn a_cache_has_the_result_of_each_configuration() {
    let recording = read_cache(CACHE).unwrap();
    let results: Vec<_> = recording.evaluations.iter().map(|it| it.result).collect();
    assert_eq!(
        results,
        [Ok(1.25), Err(Failure::Runtime), Err(Failure::Compile)]
    );
    let first = &recording.evaluations[0];
    assert_eq!(first.runtimes, [1.0, 1.5]);
    assert_eq!(first.spent.compile, Some(900.5));
    assert_eq!(first.spent.verification, Some(0.0));
    assert_eq!(recording.problem_size, [4096, 4096]);
    let (space, outcomes) = recording.space().unwrap();
    assert_eq!(space.len(), 3);
    assert_eq!(outcomes[1], Outcome::Failed);
}

#[test]
fn reads_a_cache_as_it_was_written() {
    let recording = read_cache(CACHE).unwrap();
    let text = write_cache(&recording).unwrap();
    assert_eq!(read_cache(&text).unwrap(), recording);
    // By this Kernel Tuner knows that a cache is finished.
    assert!(text.ends_with("}}}"));
    // Its keys are Python's words for the values.
    assert!(text.contains(r#""32,True,rows,1.0":"#), "{text}");
}

#[test]
fn t4_has_a_result_for_each_configuration() {
    let text = write_t4(&read_cache(CACHE).unwrap()).unwrap();
    let t4: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(t4["schema_version"], "1.0.0");
    assert_eq!(t4["metadata"]["timeunit"], "miliseconds");
    let lines = t4["results"].as_array().unwrap().iter();
    insta::assert_snapshot!(lines.map(|it| format!("{it}\n")).collect::<String>());
}

#[test]
fn reads_an_interrupted_cache_up_to_the_cut() {
    let (cut, _) = CACHE.split_once("\n\"32,False").unwrap();
    assert!(cut.ends_with(','));
    assert_eq!(read_cache(cut).unwrap().evaluations.len(), 2);
    // Inside a configuration it cannot be mended.
    let (cut, _) = CACHE.split_once("\"InvalidConfig\"").unwrap();
    assert!(matches!(read_cache(cut), Err(Unreadable::Json(_))));
}

#[test]
fn excluded_configurations_are_not_in_the_space() {
    let text = CACHE.replace("\"RuntimeFailedConfig\"", "\"InvalidConfig\"");
    let recording = read_cache(&text).unwrap();
    assert_eq!(recording.evaluations.len(), 3);
    assert_eq!(recording.space().unwrap().0.len(), 2);
}

#[test]
fn malformed_caches_are_refused() {
    let refusal = |from: &str, to: &str| {
        assert!(CACHE.contains(from));
        let read = read_cache(&CACHE.replacen(from, to, 1));
        read.map(|_| ()).unwrap_err().to_string()
    };
    insta::assert_snapshot!(
        [
            refusal("\"RuntimeFailedConfig\"", "\"OutOfMemory\""),
            refusal("\"time\": 1.25", "\"time\": null"),
            refusal("\"time\": 1.25, ", ""),
            refusal("\"threads\": 64, ", ""),
            refusal("\"threads\": 64,", "\"threads\": [64],"),
            refusal("\"times\": [1.0, 1.5]", "\"times\": 1.0"),
            refusal("\"32,True,rows,1.0\"", "\"64,True,rows,0.5\""),
            refusal("\"share\": [0.5, 1.0]", "\"other\": [1]"),
        ]
        .join("\n")
    );
}
