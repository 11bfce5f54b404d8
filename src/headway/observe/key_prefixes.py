"""How keys of known services begin, by the number of characters that follow at least.

The facts are those of the rule sets of gitleaks (MIT, as llm-guard 0.3.16 ships them) and detect-secrets 1.5.0
(Apache-2.0); the patterns are ours. After a letter or a digit, a prefix is part of another word.
"""

from __future__ import annotations

PREFIXES = {
    12: "AKIA ASIA ABIA ACCA A3T AKC LTAI sq0csp- sq0atp- xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- "
    "xoxe.xox xapp- FLWSECK_TEST- p8e- sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_ whsec_",
    16: "sk- glpat- glptt- gldt- glrt- glcbt- glimt- glagent- gloas- GR1348941 ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ "
    "hf_ api_org_ npm_ dapi dop_v1_ doo_v1_ dor_v1_ dp.pt. dt0c01. shpat_ shpca_ shppa_ shpss_ gsk_ r8_ xai- fw_ "
    "nvapi- pplx- tvly- sntrys_ lin_api_ hvs. hvb. ATATT3x ya29. AIza eyJrIjoi glc_ glsa_ CLOJARS_ duffel_test_ "
    "duffel_live_ EZAK EZTK fio-u- PMAK- pnu_ pul- pypi-AgE rdme_ rubygems_ tk-us- SG. xkeysib- shippo_live_ "
    "shippo_test_ pscale_tkn_ pscale_oauth_ pscale_pw_ AGE-SECRET-KEY-1 hw_",
}
