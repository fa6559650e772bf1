from vramgate.access import LOCAL_CALLER, Caller, Scope, Tenant


def test_an_admin_may_do_everything_and_others_what_they_hold() -> None:
    reporter = Caller(name="ci", tenant=Tenant(name="t"), scopes=frozenset({Scope.REPORT}))
    assert [scope for scope in Scope if reporter.may(scope)] == [Scope.REPORT]
    assert all(LOCAL_CALLER.may(scope) for scope in Scope)
