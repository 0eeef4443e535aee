"""Words of the subjects that the demonstration of topics plants; written for it."""

from __future__ import annotations

__all__ = ["COMMON", "SUBJECTS"]

_TEXT = """
astronomy: star planet telescope orbit galaxy comet moon nebula light sky observatory dwarf eclipse cluster
  mirror spectrum dust probe parallax quasar meteor lens night zenith
bread: dough flour yeast oven crust loaf salt water knead starter rye proof crumb bake butter wheat slice
  sourdough baker steam gluten rise tin toast
law: court judge statute appeal contract evidence jury defendant clause verdict counsel trial plaintiff
  right ruling witness damages sentence tort code hearing bench precedent oath
sailing: boat sail wind mast harbour keel tide rudder knot anchor rope hull jib deck helm buoy current crew
  spinnaker reef mooring bow stern log
gardening: soil seed plant compost rose prune root bloom weed bulb shrub leaf water frost bed lawn spade
  mulch hedge tomato slug graft cutting shade
chess: pawn knight bishop queen rook king opening gambit check endgame castle board clock tempo pin fork
  mate exchange square rank sacrifice file zugzwang trial
music: chord melody violin tempo rhythm sonata concert pitch choir key harmony cello orchestra scale bow
  octave score opera tune bass quartet beat note fugue
medicine: patient dose fever nurse clinic symptom trial blood disease surgery diagnosis vaccine heart
  treatment ward pulse tissue infection remedy scan doctor rash muscle tablet
railways: train track station signal engine locomotive platform carriage gauge freight timetable tunnel
  points bridge conductor junction rail ballast sleeper steam brake line ticket cutting
cinema: film camera scene actor director script screen shot studio edit star premiere reel lens comedy frame
  sequel cast light trailer plot close-up projector set
weather: rain cloud wind storm pressure front forecast snow frost humidity thunder temperature gust fog
  drought barometer hail season sky mist lightning climate breeze dew
geology: rock fault mineral quartz basalt layer magma crystal fossil granite erosion sediment plate volcano
  quarry strata cave ore limestone lava slate core gneiss rift
football: goal match striker referee pitch penalty keeper league pass corner tackle header coach season cup
  derby foul offside stadium transfer fan whistle winger bench
money: bank loan interest bond market share fund price credit debt inflation tax budget currency dividend
  rate trade account capital yield broker bill note mortgage
painting: canvas brush colour portrait oil palette frame gallery sketch pigment light shade landscape easel
  varnish fresco studio line exhibition glaze watercolour still-life gesso scale
knitting: wool needle stitch yarn purl row sleeve pattern cast cable rib gauge skein scarf cuff mitten
  bobble lace chart loop button hem mohair cardigan
bees: hive honey queen swarm pollen wax nectar comb worker drone brood keeper frame bloom smoker sting
  forage mite larva cluster clover veil apiary colony
computing: code memory loop file server kernel array cache thread bug compiler pointer disk stack query
  branch commit network byte parser script key queue port
mountains: summit ridge rope glacier peak climb snow valley route crevasse pass camp face altitude cairn hut
  rock avalanche boot pitch descent ledge guide col
tea: leaf cup pot kettle steep green oolong brew milk blend garden harvest tray saucer infusion jasmine mint
  spoon water porcelain whisk bud aroma sugar
"""
_COMMON = """
the of and to in a is that it for was on are as with be at by this have from or one had not but what all
were when we there can an your which their said if do will each about how up out them then she many some so
these would other into has more her two like him see time could no make than first been its who now people
my made over did down only way find use may long little very after words called just where most know
"""


def _subjects() -> dict[str, list[str]]:
    made: dict[str, list[str]] = {}
    name = ""
    for line in _TEXT.strip().splitlines():
        head, colon, rest = line.partition(":")
        if colon:
            name = head
        made.setdefault(name, []).extend((rest if colon else line).split())
    return made


SUBJECTS = _subjects()
COMMON = _COMMON.split()
