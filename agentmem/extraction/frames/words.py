"""Words by which a reader knows clauses, corrections, reports of others and what it must leave alone."""

from __future__ import annotations

import re

from agentmem.extraction.frames.dates import DATE

# A request to keep something says it: "can you note that I moved?"
NOTED = re.compile(
    r"^(?:please,? )?(?:(?:can|could|will|would) you )?(?:please )?(?:note|remember|write down|save|store|keep in mind)"
    r"(?: down| please)? that |^kannst du (?:dir )?(?:bitte )?(?:merken|notieren),? dass |^merk dir,? dass "
    r"|^(?:\u00bf)?(?:puedes|podr\u00edas) (?:apuntar|anotar|recordar|guardar) que "
    r"|^(?:recuerda|apunta|anota) que |^(?:tu peux|peux-tu|pouvez-vous) (?:noter|retenir) que "
)
SKIP_TURN = re.compile(
    r"\b(?:kidding|joking|just a joke|april fools?|pulling your leg|not remember (?:this|that)|off the record"
    r"|for a friend|a friend (?:sent|asked|wants)|pretend|role ?play|imagine|once upon a time"
    r"|let us say|let us pretend)\b"
    r"|\b(?:write|word|draft|knock up|do) (?:us |me )?(?:one|an? (?:letter|note|text|message|card|review|reply|email))"
    r" (?:for|from) (?!me\b|us\b|my (?:self|boss|landlord)\b|myself)"
    r"|april, april|(?:^|\s)/s\b"
)
SKIP_SENTENCE = re.compile(
    r"\b(?:even if|if|unless|would|wish|(?<!i )suppose|supposing|hypothetically|in theory|as if|dream(?:t|ed)?"
    r"|yeah,? right|oh great|remind me|queen of|king of|not sure|i guess|no idea|lol|lmao|rofl|haha\w*)\b"
)
PLANNED_WORDS = re.compile(r"\b(?:will|shall|going to|plan\w*|may|might|could)\b")
REPORTED = re.compile(
    r"(?<!doctor )(?<!doc )(?<!gp )(?<!mri )(?<!scan )(?<!x-ray )(?<!test )\b"
    r"(?:said|says|saying|told|tells|asked|wrote|writes|thinks?|thought"
    r"|believes?|heard|claims?|claimed|according|reckons?"
    r"|dice|dicen|dijo|sagt|sagte|meint|meinte|glaubt|dit|disent|disse|diz)\b"
)
CORRECTION = re.compile(
    r"\b(?:actually|i meant|i mean|correction|wrong|mixed up|mix up|misread|misspoke|by mistake|typo|sorry|never was"
    r"|mistaken)\b|, not \w|\b(?:is|am|are) not [^,.;]+, (?:he|she|it|i|they|we)\b|\bis my [a-z]+ now\b"
)
EXPLICIT_CORRECTION = re.compile(r"\b(?:i meant|correction|wrong|mixed up|mix up|misread|by mistake|mistaken)\b")
CHANGE = re.compile(r"\b(?:now|again|these days|nowadays|from now on|any ?more|no longer|new|switched|since|today)\b")
LEAD = re.compile(
    r"(?:(?:and|but|so|oh|ooh|well|yeah|yea|yes|yep|no|nope|aye|actually|sorry|also|now|currently|btw|by the way|hi"
    r"|hello|hey|ok|okay|right|anyway|honestly|good news|big news|fun fact|small correction|correction|then|plus|just"
    r"|because|since|as|exactly|true|finally|today|please|thanks|cheers|ah|haha|lol|though|nah|update|fyi|confidential"
    r"|i meant(?: that)?|i mean(?: that)?)"
    r"\b[,!:.\s\u2026]*)*"
)
JOINT = re.compile(
    r"(?:,\s+(?:and |but |so |then |because |while |though )?"
    r"|\s+(?:and|but|so|then|because|while|though|cos|cuz)\s+|[;:]\s+|\s+[-\u2013\u2014]+\s+|\)\s*)"
)
ADJECTIVES = (
    r"(?:(?:new|old|older|younger|little|big|eldest|youngest|oldest|baby|late|ex|lovely|dear|good|best|close|twin|current"
    r"|former) )*"
)
# An event that waits for its date ("knee op. 6th may"), and a sentence that is a date alone.
PENDING_EVENT = re.compile(
    r"\b(?P<event>(?:(?:knee|hip|back|eye|wrist|shoulder|hospital|doctors?|dentist|driving|job) )?"
    r"(?:scan|op|operation|surgery|mri|appointment|interview|exam|viva|driving test|check-?up|wedding|birthday"
    r"|holiday|refresher|course|training|inspection|funeral|christening|viewing|mot|conference|workshop"
    r"|fishing trip))\b"
    r"|^(?:the |my |our |me |got (?:the |a )?)?(?P<booked>[a-z][\w-]+(?: [a-z][\w-]+)?)"
    r"(?: (?:in|at|to|with|for) [\w ]+?)?"
    r" (?:is |are |all |anyway )*booked(?: in| anyway)?\s*$"
)
OTHERS_BEFORE = re.compile(r"\b(?:his|her|their|your|\w+'s) (?:\w+ )?\Z")
DATE_ALONE = re.compile(
    r"(?:on |it is |now |new date |it starts )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day(?: week)?,? )?"
    rf"(?:the )?(?P<when>{DATE})"
    r"(?: now| at [\w ]+| for [\w ]+|,? [\w ]+ hospital)?\W*"
)
# Words that may go on about whom an answer just named: "Denise. lives in Morpeth".
ELIDED_VERB = re.compile(
    r"(?:and |but |still |only |now )*(?:lives|works|drives|likes|loves|hates|plays|speaks|takes|has)\b"
)
THIRD_PERSON = re.compile(r"(?:s|ed)\Z|\A(?:is|has|was)\b")
BE_LIKE = re.compile(r"\b(?:am|is|are|was|were|be|been|being)\s+(?:\w+\s+)?like\Z")  # "they are like family"
TASTE_SLOTS = frozenset({"likes", "dislikes"})
OWN_SLOTS = TASTE_SLOTS | {
    "hobbies",
    "tool",
    "drinking",
    "smoking",
    "relationship_status",
    "nationality",
}  # read only where the clause says whose they are
# What stands before "my wife" at the beginning of a sentence and is no name.
NO_NAME = re.compile(
    r"(?:al)?though|hello|hi|hey|dear|together|moreover|until|what|while|back|even|like|both|home|besides|however|maybe"
    r"|perhaps|plus|thanks|sorry|me|u|ur|with|for|about|except|apart|luckily|sadly|meanwhile|unlike|instead|either|neither"
    r"|family|source|\w+ly"
)
NAMING = re.compile(r"\b(?:called|name|nenn\w*)\b")
NAMED_SLOTS = frozenset({"home", "employer"})
INSTITUTION = re.compile(
    r"\b(?:city|council|university|uni|college|school|hospital|clinic|nhs|army|navy|police|government|ministry|bank"
    r"|library|museum|company|firm|agency|studio|factory|warehouse|cannery|church|charity|startup|bakery|garage)\b"
)
CLAUSE_END = re.compile(
    r"\s*(?:[,.;:!?)\u2026]|\Z)|\s(?:and|but|so|because|cos|too|though|tho|lol|by the way|btw|please)\b"
)
PRONOUN_INSIDE = re.compile(r"\b(?:him|her|them|it|you|me|us|he|she|they|that|this|those|also)\b")
NEGATED_BEFORE = re.compile(r"\b(?:no|nicht|ne|n\u00e3o|nunca|nie|jamais|never|not)\s+\Z")
HELPERS = frozenset({"now", "never"})  # groups that fill no slot
NOW = re.compile(
    r"\b(?:jetzt|nun|inzwischen|mittlerweile|ahora|actualmente|maintenant|d\u00e9sormais|agora|atualmente)\b"
)
PRONOUN = re.compile(r"(?P<pronoun>she|he|they)\b")
OWNER = r"(?:my|our|me|the(?= (?:wife|missus|husband|gaffer|dog|cat|lad|lass|boss|landlord|landlady)\b))"
# Verbs after which a word in small letters is a name: "me wife sandra works", "our dean moved".
NAME_VERBS = (
    r"(?=\s*(?:[,.;!]|$)|\s(?:is|was|has|had|lives?|works?|moved|got|left|lost|started|joined|likes|loves|hates|drives"
    r"|drinks|smokes|speaks|takes|turns|turned|retired|can|does|will|wants|says|rang|he is|she is|and i)\b)"
)
SELF = re.compile(r"(?P<self>i|we|me and my \w+|my \w+ and i)\b")
NEGATED_REST = re.compile(r",? (?:and |but )?not (?:the |an? )?(?P<other>[\w.'-]+(?: [\w.'-]+)?)(?=\s*(?:[,.;!?]|$))")
OTHER_SUBJECT = re.compile(
    r"(?:the|a|an|his|her|their|its|your|you|it|this|that|there|these|those|everyone|someone|nobody|people|who|which)\b"
    r"|(?:my|our|me) \w+"
)
COUNTS = {"1": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "2": 2, "3": 3, "4": 4, "5": 5}
# What "our" stands before that is no name.
COMMON_NOUNS = frozenset(
    word
    for line in (
        "house flat place home van car team company firm business garden kitchen roof boiler school office street road",
        "town village city club band neighbour neighbor landlord boss lot kids children son daughter family plan trip",
        "holiday budget app site product server release build repo code project baby wedding anniversary favourite",
        "favorite new old last first next local whole main only own best kid lad lass dog cat shed bathroom loft rent",
        "heating",
    )
    for word in line.split()
)
