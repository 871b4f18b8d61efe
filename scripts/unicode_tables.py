"""Writes the Unicode tables of `\\p{...}`, as Node's own tables have them: python -m scripts.unicode_tables

The names are those of ECMA-262 (tables of properties and of their values), a short and a long name of each.
"""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise

from espalier.grammars.automata.unicode_tables import PATH, Range, packed

_CATEGORIES = """
    Lu=Uppercase_Letter Ll=Lowercase_Letter Lt=Titlecase_Letter Lm=Modifier_Letter Lo=Other_Letter
    Mn=Nonspacing_Mark Mc=Spacing_Mark Me=Enclosing_Mark Nd=Decimal_Number=digit Nl=Letter_Number
    No=Other_Number Pc=Connector_Punctuation Pd=Dash_Punctuation Ps=Open_Punctuation Pe=Close_Punctuation
    Pi=Initial_Punctuation Pf=Final_Punctuation Po=Other_Punctuation Sm=Math_Symbol Sc=Currency_Symbol
    Sk=Modifier_Symbol So=Other_Symbol Zs=Space_Separator Zl=Line_Separator Zp=Paragraph_Separator
    Cc=Control=cntrl Cf=Format Cs=Surrogate Co=Private_Use Cn=Unassigned L=Letter M=Mark=Combining_Mark N=Number
    P=Punctuation=punct S=Symbol Z=Separator C=Other LC=Cased_Letter
"""
_BINARY = """
    ASCII ASCII_Hex_Digit=AHex Alphabetic=Alpha Any Assigned Bidi_Control=Bidi_C Bidi_Mirrored=Bidi_M
    Case_Ignorable=CI Cased Changes_When_Casefolded=CWCF Changes_When_Casemapped=CWCM
    Changes_When_Lowercased=CWL Changes_When_NFKC_Casefolded=CWKCF Changes_When_Titlecased=CWT
    Changes_When_Uppercased=CWU Dash Default_Ignorable_Code_Point=DI Deprecated=Dep Diacritic=Dia Emoji
    Emoji_Component=EComp Emoji_Modifier=EMod Emoji_Modifier_Base=EBase Emoji_Presentation=EPres
    Extended_Pictographic=ExtPict Extender=Ext Grapheme_Base=Gr_Base Grapheme_Extend=Gr_Ext Hex_Digit=Hex
    IDS_Binary_Operator=IDSB IDS_Trinary_Operator=IDST ID_Continue=IDC ID_Start=IDS Ideographic=Ideo
    Join_Control=Join_C Logical_Order_Exception=LOE Lowercase=Lower Math Noncharacter_Code_Point=NChar
    Pattern_Syntax=Pat_Syn Pattern_White_Space=Pat_WS Quotation_Mark=QMark Radical Regional_Indicator=RI
    Sentence_Terminal=STerm Soft_Dotted=SD Terminal_Punctuation=Term Unified_Ideograph=UIdeo Uppercase=Upper
    Variation_Selector=VS White_Space=space XID_Continue=XIDC XID_Start=XIDS
"""
_SCRIPTS = """
    Adlm=Adlam Aghb=Caucasian_Albanian Ahom Arab=Arabic Armi=Imperial_Aramaic Armn=Armenian Avst=Avestan
    Bali=Balinese Bamu=Bamum Bass=Bassa_Vah Batk=Batak Beng=Bengali Berf=Beria_Erfe Bhks=Bhaiksuki Bopo=Bopomofo
    Brah=Brahmi Brai=Braille Bugi=Buginese Buhd=Buhid Cakm=Chakma Cans=Canadian_Aboriginal Cari=Carian Cham
    Cher=Cherokee Chrs=Chorasmian Copt=Coptic=Qaac Cpmn=Cypro_Minoan Cprt=Cypriot Cyrl=Cyrillic Deva=Devanagari
    Diak=Dives_Akuru Dogr=Dogra Dsrt=Deseret Dupl=Duployan Egyp=Egyptian_Hieroglyphs Elba=Elbasan Elym=Elymaic
    Ethi=Ethiopic Gara=Garay Geor=Georgian Glag=Glagolitic Gong=Gunjala_Gondi Gonm=Masaram_Gondi Goth=Gothic
    Gran=Grantha Grek=Greek Gujr=Gujarati Gukh=Gurung_Khema Guru=Gurmukhi Hang=Hangul Hani=Han Hano=Hanunoo
    Hatr=Hatran Hebr=Hebrew Hira=Hiragana Hluw=Anatolian_Hieroglyphs Hmng=Pahawh_Hmong
    Hmnp=Nyiakeng_Puachue_Hmong Hung=Old_Hungarian Ital=Old_Italic Java=Javanese Kali=Kayah_Li Kana=Katakana
    Kawi Khar=Kharoshthi Khmr=Khmer Khoj=Khojki Kits=Khitan_Small_Script Knda=Kannada Krai=Kirat_Rai Kthi=Kaithi
    Lana=Tai_Tham Laoo=Lao Latn=Latin Lepc=Lepcha Limb=Limbu Lina=Linear_A Linb=Linear_B Lisu Lyci=Lycian
    Lydi=Lydian Mahj=Mahajani Maka=Makasar Mand=Mandaic Mani=Manichaean Marc=Marchen Medf=Medefaidrin
    Mend=Mende_Kikakui Merc=Meroitic_Cursive Mero=Meroitic_Hieroglyphs Mlym=Malayalam Modi Mong=Mongolian
    Mroo=Mro Mtei=Meetei_Mayek Mult=Multani Mymr=Myanmar Nagm=Nag_Mundari Nand=Nandinagari
    Narb=Old_North_Arabian Nbat=Nabataean Newa Nkoo=Nko Nshu=Nushu Ogam=Ogham Olck=Ol_Chiki Onao=Ol_Onal
    Orkh=Old_Turkic Orya=Oriya Osge=Osage Osma=Osmanya Ougr=Old_Uyghur Palm=Palmyrene Pauc=Pau_Cin_Hau
    Perm=Old_Permic Phag=Phags_Pa Phli=Inscriptional_Pahlavi Phlp=Psalter_Pahlavi Phnx=Phoenician Plrd=Miao
    Prti=Inscriptional_Parthian Rjng=Rejang Rohg=Hanifi_Rohingya Runr=Runic Samr=Samaritan
    Sarb=Old_South_Arabian Saur=Saurashtra Sgnw=SignWriting Shaw=Shavian Shrd=Sharada Sidd=Siddham Sidt=Sidetic
    Sind=Khudawadi Sinh=Sinhala Sogd=Sogdian Sogo=Old_Sogdian Sora=Sora_Sompeng Soyo=Soyombo Sund=Sundanese
    Sunu=Sunuwar Sylo=Syloti_Nagri Syrc=Syriac Tagb=Tagbanwa Takr=Takri Tale=Tai_Le Talu=New_Tai_Lue Taml=Tamil
    Tang=Tangut Tavt=Tai_Viet Tayo=Tai_Yo Telu=Telugu Tfng=Tifinagh Tglg=Tagalog Thaa=Thaana Thai Tibt=Tibetan
    Tirh=Tirhuta Tnsa=Tangsa Todr=Todhri Tols=Tolong_Siki Toto Tutg=Tulu_Tigalari Ugar=Ugaritic Vaii=Vai
    Vith=Vithkuqi Wara=Warang_Citi Wcho=Wancho Xpeo=Old_Persian Xsux=Cuneiform Yezi=Yezidi Yiii=Yi
    Zanb=Zanabazar_Square Zinh=Inherited=Qaai Zyyy=Common Zzzz=Unknown
"""
# Reads property expressions, writes the code points at which membership changes.
_NODE = """
const asked = JSON.parse(require("fs").readFileSync(0, "utf8"));
const found = asked.map((name) => {
  const member = new RegExp(`\\\\p{${name}}`, "u"), turns = [];
  let inside = false;
  for (let code = 0; code <= 0x110000; code++) {
    const now = code <= 0x10ffff && member.test(String.fromCodePoint(code));
    if (now !== inside) turns.push(code);
    inside = now;
  }
  return turns;
});
console.log(JSON.stringify({version: process.versions.unicode, found}));
"""


def _names(text: str, *prefixes: str) -> list[list[str]]:
    """Names of the same set, each with every prefix that it may stand behind."""
    return [[prefix + name for name in group.split("=") for prefix in prefixes] for group in text.split()]


def main() -> None:
    groups = [*_names(_CATEGORIES, "", "General_Category=", "gc="), *_names(_BINARY, ""),
              *_names(_SCRIPTS, "Script=", "sc="), *_names(_SCRIPTS, "Script_Extensions=", "scx=")]
    asked = json.dumps([group[0] for group in groups])
    done = subprocess.run(["node", "-e", _NODE], input=asked, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    names: dict[str, int] = {}
    places: dict[tuple[Range, ...], int] = {}
    for group, turns in zip(groups, answer["found"], strict=True):
        members = tuple((low, high - 1) for low, high in list(pairwise(turns))[::2])
        place = places.setdefault(members, len(places))
        names.update(dict.fromkeys(group, place))
    PATH.write_bytes(packed(answer["version"], names, list(places)))
    print(f"Unicode {answer['version']}: {len(names)} names, {len(places)} sets, {PATH.stat().st_size} bytes")


if __name__ == "__main__":
    main()
