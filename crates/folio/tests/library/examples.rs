//! The example programs do what they say.

#[path = "../../examples/many_tenants.rs"]
#[expect(unreachable_pub, reason = "it is a program")]
mod many_tenants;
#[path = "../../examples/own_model.rs"]
#[expect(unreachable_pub, reason = "it is a program")]
mod own_model;

#[test]
fn example_with_a_model_of_its_own_runs() {
    own_model::main().unwrap();
}

#[test]
fn example_with_many_tenants_runs() {
    many_tenants::main().unwrap();
}
