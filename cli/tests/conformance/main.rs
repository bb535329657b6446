//! One set of bodies, three arms: the simulated machine, the pager by guards, the pager by faults.
//! Where all pass, the machine says what the pager does.

mod arm;
mod bodies;
mod compare;
mod machine;
mod pager;

macro_rules! bodies {
    ($($module:ident: $arm:ty,)*) => {
        $(mod $module {
            use super::bodies;
            type Arm = $arm;

            #[test]
            fn any_sequence() {
                bodies::any_sequence::<Arm>();
            }

            #[test]
            fn protected_groups_keep_their_pages() {
                bodies::protected::<Arm>();
            }

            #[test]
            fn limits_hold() {
                bodies::limited::<Arm>();
            }

            #[test]
            fn write_errors_wait_for_the_next_sync() {
                bodies::write_errors::<Arm>();
            }
        })*
    };
}

bodies! {
    in_the_machine: crate::machine::Machine,
    in_the_pager_by_guards: crate::pager::Pager,
    in_the_pager_by_faults: crate::pager::Faulting,
}
