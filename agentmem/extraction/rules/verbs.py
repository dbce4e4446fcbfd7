"""The verbs that the rules know, by the rule that reads them."""

from __future__ import annotations

import re

# What was done once; the object follows.
PAST = {
    "travel": (
        r"went (?:back )?(?:to|on|for|camping|hiking|swimming|surfing|skiing|snowboarding|kayaking|biking|fishing|"
        r"climbing|"
        r"bowling|shopping|sailing|diving|skydiving|rafting|canoeing|running|cycling|dancing|sledding|ice skating|"
        r"stargazing)|"
        r"visited|travell?ed to|flew to|drove to|hiked|explored|camped|toured|backpacked|road-tripped|"
        r"(?:got|came) back from|returned (?:from|to)|moved (?:in with|out of|into)"
    ),
    "joined": (
        r"joined|signed up for|enroll?ed in|subscribed to|registered for|started|began|became|took up|applied (?:for|"
        r"to)|"
        r"switched (?:to|from)"
    ),
    "gained": r"bought|adopted|received|ordered|purchased|inherited|rented|sold|lost|donated|acquired|picked up|"
    r"found|got",
    "made": (
        r"made|painted|wrote|built|baked|cooked|created|designed|published|recorded|drew|planted|composed|developed|"
        r"launched|"
        r"opened|renovated|repaired|hosted|organi[sz]ed|arranged|set up|produced|carved|knitted|sewed|started "
        r"writing|assembled"
    ),
    "took_part": (
        r"attended|volunteered|participated in|took part in|competed in|performed|ran|won|gave|spoke at|presented|"
        r"coached|"
        r"taught|led|raised|marched|auditioned for|played"
    ),
    "achieved": (
        r"graduated|passed|finished|completed|earned|scored|retired|resigned|quit|celebrated|beat|broke|injured|hurt|"
        r"sprained|twisted|married|divorced|published"
    ),
    "met": r"met|reconnected with|caught up with|hung out with|talked (?:to|with)|spoke (?:to|with)|interviewed|hired",
    "event": (
        r"roasted|shared|contacted|decorated|reorgani[sz]ed|dropped off|challenged|connected|collaborated|struggled "
        r"with|wore|"
        r"came across|ran into|held|threw|sang|dressed as|sent|drove|swam|grew|caught|sold|built|brought|put up|went "
        r"through|"
        r"met up with|met back up with|stumbled (?:on|upon|across)|checked out|tested|set|paid|left|chose|hurt|fell|"
        r"hung out|"
        r"finished rereading|teamed up with|came up with|gave up"
    ),
    "did": r"tried|did|used|ended up|read|watched|saw|studied|learned|learnt|tested|ate|took|had|worked|lived|spent|"
    r"helped|practi[sc]ed|discovered",
}

# What is done habitually; the object follows.
PRESENT = (
    r"play|volunteer|own|speak|study|teach|coach|collect|practi[sc]e|paint|run|drive|ride|attend|grow|manage|lead|"
    r"write|meditate|jog|swim|hike|bake|sing|dance|surf|knit|travel|commute|take care of|belong to|live with|believe "
    r"in|"
    r"suffer from|cook|train|watch|mentor|host|use|rely on|do yoga|do karate|go to"
)
# What goes on for a while; the object follows.
ONGOING = (
    r"working|learning|studying|reading|training|taking|playing|volunteering|writing|building|organi[sz]ing|making|"
    r"doing|"
    r"practi[sc]ing|teaching|coaching|researching|saving|looking (?:into|for|at)|trying|helping|running|using|"
    r"watching|painting|"
    r"preparing|creating|developing|renovating|seeing|dating|living|rehearsing|recovering|exploring|attending|"
    r"loving|enjoying|designing|growing|raising|applying|collecting|cooking|experimenting|focusing|getting into"
)
LIKING = r"love|like|enjoy|adore|prefer|hate|dislike|cherish|detest|loathe"

# With these verbs only some objects make a statement worth keeping.
OBJECTS_BY_VERB = {
    "got": re.compile(
        r"(?:back from|hurt|married|engaged|divorced|promoted|hired|fired|laid off|into (?!it\b)|accepted|an? "
        r"(?!(?:[\w-]+ ){0,3}(?:feeling|idea|"
        r"chance|lot|bit|pic|photo|picture|surge|kick|sense|no|taste|glimpse|hang|break|while|call|few|ton|bunch|"
        r"look|opportunity|story|stories|news)\b)[\w-]+|"
        r"my (?:\w+ ){0,2}(?:degree|licen[sc]e|ears|master|diploma))"
    ),
    "held": re.compile(r"(?:a|an|some|two|three) \S"),
    "set": re.compile(r"(?:a|an|my) \S"),
    "left": re.compile(r"(?:my|[A-Z]|for) ?\S"),
    "shared": re.compile(r"(?:a|an|my) \S"),
    "grew": re.compile(r"(?:a|an|my|some) \S"),
    "caught": re.compile(r"(?:a|an) \S"),
    "brought": re.compile(r"(?:a|an|my|some) \S"),
    "had": re.compile(
        r"(?:(?:a|an|my|our) (?!(?:[\w-]+ ){0,3}(?:time|blast|feeling|idea|chance|lot|bit|moment|ton|day|days|week|"
        r"weekend|talk|look|hard|say|tough|wicked|wild|points|group)\b)"
        r"|dinner |lunch |brunch |surgery)[\w-]+"
    ),
    "did": re.compile(r"(?:an? (?!(?:[\w-]+ )?(?:lot|bit|job|great|good)\b)|some )\S"),
    "used": re.compile(r"(?:an?|my|some) \S"),
    "took": re.compile(
        r"(?:my|our|a|an|the) (?:[\w'-]+ ){0,4}(?:to|out|camping|hiking|trip|course|class|exam|test|walk|hike|"
        r"workshop|tour|stroll|roadtrip|"
        r"vacation|flight|ride|train|lesson|lessons)\b(?! (?:that|the)? ?(?:pic|photo))"
    ),
    "gave": re.compile(r"(?:a|an) (?:\w+ ){0,3}(?:talk|speech|presentation|lecture|concert|lesson|tour|toast)\b"),
    "won": re.compile(r"(?:a|an|the|my|our|first|second|third) \S"),
    "ran": re.compile(r"(?:a|an|my|for|in|the) \S"),
    "led": re.compile(r"(?:a|an) \S"),
    "raised": re.compile(r"(?:money|funds|awareness|\$|a |over|nearly)"),
    "played": re.compile(
        r"(?:a|an|in|at|with|for|my|[A-Z]\w*|the (?:piano|guitar|violin|drums)|\w*(?:ball|minton|tennis|chess|games))\b"
    ),
    "performed": re.compile(r"(?:at|in|a|an|with) \S"),
    "volunteered": re.compile(r"(?:at|for|with|as|in|my) \S"),
    "lost": re.compile(r"my \S"),
    "found": re.compile(r"(?:a|an|my) (?!.*\b(?:of|to)\b)\S"),
    "made": re.compile(r"(?:a|an|some|my|our|dinner|lunch|breakfast|\w+ (?:cookies|cake|bread|soup|pie))\b"),
    "met": re.compile(r"(?:a|an|my|some|two|three|four|[A-Z][a-z]) ?\S"),
    "talked to": re.compile(r"(?:a|an|my|some) \S|[A-Z]"),
    "talked with": re.compile(r"(?:a|an|my|some) \S|[A-Z]"),
    "spoke to": re.compile(r"(?:a|an|my|some) \S|[A-Z]"),
    "spoke with": re.compile(r"(?:a|an|my|some) \S|[A-Z]"),
    "started": re.compile(
        r"(?:a|an|my|learning|working|playing|studying|volunteering|teaching|writing|painting|running|surfing|training|"
        r"coaching|cooking|dancing|taking|doing|going|making|seeing|dating|transitioning|knitting|streaming|reading|"
        r"collecting|"
        r"attending|building|shooting|lifting|gardening|helping|baking|hitting) ?\S?"
    ),
    "began": re.compile(r"\w+ing\b"),
    "became": re.compile(r"(?:a|an|the) \S"),
    "read": re.compile(r'(?:"|\u201c|[A-Z]|a |an |some )'),
    "saw": re.compile(r'(?:"|\u201c|[A-Z]|a |an |some |my )'),
    "watched": re.compile(r'(?:"|\u201c|[A-Z]|a |an |some |the [A-Z])'),
    "learned": re.compile(r"(?:how to|to|about|a|an|some|[A-Z]) \S|\w+$"),
    "discovered": re.compile(r"(?:a|an|[A-Z]) ?\S"),
    "tried": re.compile(r"(?!my best|our best|to )\S"),
    "ate": re.compile(r"(?:a|an|some|at|in|\w+$)"),
    "helped": re.compile(r"(?:my|a|an|out at|at|with|renovate|organi[sz]e|build|clean|some|[A-Z])"),
    "worked": re.compile(r"(?:at|for|as|in|with) (?!that|the|hard)\S"),
    "lived": re.compile(r"(?:in|on|at|with|abroad)\b"),
    "spent": re.compile(
        r"(?:the|a|an|some|my|two|three|\w+ (?:days|weeks|months|years)) (?:\w+ ){0,4}(?:in|at|on|with|\w+ing)\b"
    ),
    "beat": re.compile(r"(?:my|[A-Z])"),
    "broke": re.compile(r"my \S"),
    "hurt": re.compile(r"my \S"),
    "injured": re.compile(r"my \S"),
    "passed": re.compile(r"(?:my|the|a|an) \S"),
    "finished": re.compile(r"(?:my|a|an|reading|writing|\"|[A-Z]|the \w+ \w)"),
    "quit": re.compile(r"(?:my|\w+ing|as) ?\S"),
    "gained": re.compile(r"\S"),
    "opened": re.compile(r"(?:a|an|my|our) (?!up)\S"),
    "went for": re.compile(r"(?:a|an) \S"),
    "went on": re.compile(r"(?:a|an|my|our|holiday|vacation|two) ?\S"),
    "picked up": re.compile(r"(?:a|an|some|my) \S|\w+ing\b"),
    "hired": re.compile(r"(?:a|an|my|some|[A-Z])"),
    "took up": re.compile(r"(?:a|an|some)? ?\w"),
}
INTRANSITIVE_VERBS = frozenset({"married", "divorced", "graduated", "retired", "resigned", "camped", "volunteered"})
"""Verbs that may stand without an object. So may "went camping" and its like."""

POSSESSED_OBJECTS = (
    r"(?:two|three|four|five|six|\d|my own|twin) (?:[\w-]+ ){0,3}\w|an? (?!(?:[\w-]+ ){0,3}(?:feeling|idea|chance|"
    r"lot|bit|time|question|point|story|"
    r"stories|news|blast|ton|bunch|sense|reason|way|few|great|good|thing|hard|tough|problem|look|talk|say|picture|"
    r"pic|photo|soft|while|suggestion)\b)\w|"
    r"(?:asthma|diabetes|celiac disease|coeliac disease|epilepsy|arthritis|adhd|anxiety|insomnia|migraines|dyslexia|"
    r"hay fever|gastritis)\b"
)
OCCUPATION = (
    r"(?:[\w-]+ ){0,2}(?:nurse|teacher|doctor|engineer|developer|programmer|designer|lawyer|chef|cook|baker|writer|"
    r"author|journalist|"
    r"student|accountant|architect|artist|musician|painter|photographer|manager|consultant|scientist|researcher|"
    r"therapist|"
    r"counselor|counsellor|electrician|plumber|carpenter|mechanic|driver|pilot|farmer|firefighter|police officer|"
    r"soldier|"
    r"veteran|dentist|vet|pharmacist|paramedic|librarian|professor|coach|trainer|barista|waiter|waitress|salesperson|"
    r"freelancer|entrepreneur|analyst|translator|editor|gardener|tailor|hairdresser|surgeon|physicist|chemist|"
    r"biologist|"
    r"shooting guard|point guard|goalkeeper|volunteer firefighter|single (?:mom|mum|mother|dad|father|parent)|"
    r"vegetarian|vegan|widower?|diabetic|coeliac|celiac|twin|only child)"
)
KIN = (
    r"(?:(?:older|younger|little|big|elder|eldest|youngest|oldest|twin|late|step|half|best|old|close|good|dear|new|"
    r"ex)[ -]?)*"
    r"(?:sister|brother|mother|mom|mum|father|dad|son|daughter|wife|husband|partner|girlfriend|boyfriend|"
    r"fianc[e\u00e9]+|aunt|auntie|uncle|"
    r"cousin|niece|nephew|grandma|grandmother|granny|grandpa|grandfather|grandson|granddaughter|friend|buddy|"
    r"colleague|coworker|"
    r"co-worker|boss|manager|neighbou?r|roommate|flatmate|teacher|coach|mentor|teammate|classmate|mother-in-law|"
    r"father-in-law|"
    r"sister-in-law|brother-in-law|stepmom|stepdad|therapist|doctor)"
)
PET = (
    r"(?:(?:new|little|old|adorable|cute|beloved|sweet|rescue|other)[ -])*(?:dog|puppy|pup|cat|kitten|horse|parrot|"
    r"hamster|rabbit|turtle|tortoise|bird|guinea pig|pet)"
)
