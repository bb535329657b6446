use super::*;

#[test]
fn every_parameter_has_a_unit_a_source_and_a_description() {
    for info in Params::default().describe() {
        assert_ne!(info.unit, "", "{}", info.name);
        assert!(!info.source.is_empty(), "{}", info.name);
        assert!(info.what.ends_with('.'), "{}", info.name);
        assert_eq!(info.value, info.default, "{}", info.name);
        let (min, max) = range_of(info.name);
        assert!((min..=max).contains(&info.default), "{}", info.name);
    }
}

#[test]
fn set_reaches_the_field_it_names() {
    let mut params = Params::default();
    for (i, name) in Params::NAMES.iter().enumerate() {
        let (min, max) = range_of(name);
        let value = (100 + i as u64).clamp(min, max);
        params.set(name, value).unwrap();
        assert_eq!(params.get(name), Ok(value));
    }
    params.set("walk_pte_ns", 7).unwrap();
    assert_eq!(params.walk_pte_ns, 7);
}

#[test]
fn a_misspelt_name_gets_the_nearest() {
    let error = Params::default().set("nvme_raed_lat_ns", 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no parameter is named 'nvme_raed_lat_ns'; did you mean 'nvme_read_lat_ns'?"
    );
    let error = Params::default().get("qqqq").unwrap_err();
    assert!(error.to_string().contains("list the parameters"));
}

#[test]
fn values_the_model_cannot_work_with_are_refused() {
    let mut params = Params::default();
    for (name, value) in [
        ("nvme_channels", 0),
        ("hdd_bytes_per_s", 0),
        ("timer_hz", 0),
        ("timer_hz", 2_000_000_000),
        ("walk_pte_ns", u64::MAX),
    ] {
        let error = params.set(name, value).unwrap_err();
        assert!(matches!(error, ParamError::OutOfRange { .. }), "{error}");
    }
    assert_eq!(params, Params::default());
}

#[test]
fn scaling_touches_exactly_the_assumed_values() {
    let base = Params::default();
    let doubled = base.scaled_assumed(2, 1);
    let halved = base.scaled_assumed(1, 2);
    let all = base.describe().into_iter();
    for ((info, double), half) in all.zip(doubled.describe()).zip(halved.describe()) {
        if info.mark == Mark::Assumed {
            let (min, max) = range_of(info.name);
            assert_eq!(double.value, (info.value * 2).min(max), "{}", info.name);
            assert_eq!(half.value, (info.value / 2).max(min), "{}", info.name);
        } else {
            assert_eq!(double.value, info.value, "{}", info.name);
            assert_eq!(half.value, info.value, "{}", info.name);
        }
    }
    assert_eq!(base.scaled_assumed(1, 1_000_000_000).nvme_fast_channels, 1);
}
