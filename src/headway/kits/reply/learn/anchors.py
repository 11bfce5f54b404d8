"""General questions with plain answers. The distance of a trained model from its base is measured on them.

`TRAINING` holds a model near its base while it learns. `CHECKING` tells at the end of a run whether it has gone too far:
no update has read it. `JUDGING` is what the gate measures, and neither of them.
"""

from __future__ import annotations

TRAINING: tuple[tuple[str, str], ...] = (
    ("How do plants make food?", "Plants make food by photosynthesis. Their leaves take in sunlight, water and carbon dioxide, and turn them into sugar and oxygen."),
    ("Write a short poem about rain.", "Soft rain taps on the window pane,\nIt drums upon the tin again,\nThe garden drinks, the gutters sing,\nAnd puddles hold the evening's ring."),
    ("What is the difference between a list and a tuple in Python?", "A list can be changed after it is made: items can be added, removed or replaced. A tuple cannot be changed. Lists are written with square brackets and tuples with parentheses."),
    ("Give me three tips for better sleep.", "1. Go to bed at the same time every day.\n2. Keep the bedroom dark and cool.\n3. Avoid screens and coffee in the hours before you sleep."),
    ("Who was Marie Curie?", "Marie Curie was a physicist and chemist who studied radioactivity. She discovered polonium and radium, and she was the first person to win two Nobel Prizes."),
    ("Translate 'Good morning, my friend' into French.", "In French, that is \"Bonjour, mon ami\"."),
    ("Explain inflation to a child.", "Inflation means that things slowly cost more money than before. If an apple cost one coin last year and costs two coins now, your coin buys less than it did."),
    ("Write a function that adds two numbers.", "Here is a function in Python:\n\ndef add(a, b):\n    return a + b\n\nYou can call it with add(2, 3), which gives 5."),
    ("What causes the seasons?", "The seasons come from the tilt of the Earth's axis. When our half of the Earth leans towards the sun, the days are long and warm; when it leans away, they are short and cold."),
    ("Suggest a simple dinner.", "You could cook pasta with tomatoes, garlic and basil. Boil the pasta, fry the garlic in oil, add the tomatoes, and mix everything with fresh basil and some cheese."),
    ("How does a refrigerator work?", "A refrigerator pumps a fluid through pipes. The fluid evaporates inside and takes up heat, and then it is compressed outside, where it gives the heat to the room."),
    ("What should I see in Rome?", "In Rome you should see the Colosseum, the Roman Forum, the Pantheon and the Vatican Museums. In the evening, walk through Trastevere and have dinner there."),
    ("Describe a lion.", "A lion is a large cat with a golden coat. Males have a thick mane around the head. Lions live in groups called prides and hunt animals such as zebras and antelopes."),
    ("Why do we have leap years?", "The Earth takes about 365 and a quarter days to travel around the sun. To keep the calendar in step, one day is added to February nearly every four years."),
    ("Write a polite email that asks for a day off.", "Dear Ms Brown,\n\nI would like to take next Friday off for a family matter. My work for the week will be finished on Thursday.\n\nThank you for considering it.\n\nBest regards,\nAlex"),
    ("What is machine learning?", "Machine learning is a way to write programs that improve with data. Instead of fixed rules, the program finds patterns in examples and uses them for new cases."),
)  # fmt: skip

CHECKING: tuple[tuple[str, str], ...] = (
    ("How far away is the moon?", "The moon is about 384,000 kilometres away from the Earth. Light needs a little more than one second for this distance."),
    ("Write a slogan for a bakery.", "Fresh from our oven, straight to your heart."),
    ("What is the past tense of 'to go'?", "The past tense of \"to go\" is \"went\". The past participle is \"gone\"."),
    ("How do I boil an egg?", "Put the egg into boiling water. After six minutes the yolk is soft, after ten minutes it is hard. Then cool it in cold water."),
    ("What does HTTP stand for?", "HTTP stands for Hypertext Transfer Protocol. Browsers and servers use it to exchange web pages."),
    ("Give me a short summary of Romeo and Juliet.", "Two young people from families that hate each other fall in love and marry in secret. A chain of mistakes leads to the death of both, and their families make peace at last."),
    ("How can I save money every month?", "Write down what you spend, set a limit for each kind of expense, and move a fixed amount to a savings account on the day when your salary arrives."),
    ("Why do cats purr?", "Cats often purr when they are content, for example when they are stroked. They also purr to calm themselves when they are hurt or afraid."),
    ("Convert 10 miles to kilometres.", "One mile is about 1.609 kilometres, so 10 miles are about 16.1 kilometres."),
    ("What is a good way to start a speech?", "Start with a short story, a surprising fact or a question. It catches the attention of your audience and leads to your subject."),
    ("Write a function in Python that checks whether a number is even.", "def is_even(number):\n    return number % 2 == 0"),
    ("Who painted the Mona Lisa?", "The Mona Lisa was painted by Leonardo da Vinci in the early sixteenth century. It hangs in the Louvre in Paris."),
)  # fmt: skip

JUDGING: tuple[tuple[str, str], ...] = (
    ("What is the capital of Australia?", "The capital of Australia is Canberra. Many people think that it is Sydney, which is the largest city."),
    ("How do vaccines work?", "A vaccine shows the immune system a harmless part of a germ. The body learns to recognise it and makes antibodies, so that it can react quickly when the real germ arrives."),
    ("Write two sentences about the ocean.", "The ocean covers more than two thirds of the Earth and holds most of its water. It is home to countless animals, from tiny plankton to the blue whale."),
    ("What is a prime number?", "A prime number is a whole number greater than 1 that can be divided only by 1 and by itself. Examples are 2, 3, 5, 7 and 11."),
    ("Give me ideas for a birthday present for my father.", "Here are some ideas:\n- a good book about his favourite subject\n- tickets for a concert or a game\n- a tool that he can use in the garden\n- a framed photo of the family"),
    ("How can I learn to play the guitar?", "Start with a few simple chords and practise them every day for a short time. Learn songs that you like, use a metronome, and look for a teacher or lessons online."),
    ("Explain what a database index does.", "An index is a sorted structure beside a table. It lets the database find rows by the value of a column without reading the whole table, at the cost of some space and slower writes."),
    ("Tell me a short story about a fox.", "Once upon a time, a young fox found a silver bell in the forest. Every night he rang it, and the other animals came to listen. In the winter the bell led a lost child home."),
    ("Why is the sky blue?", "Sunlight contains all colours. The air scatters blue light much more than red light, so that blue reaches our eyes from every direction, and the sky looks blue."),
    ("How do I remove a coffee stain from a shirt?", "Rinse the stain with cold water at once. Rub in some liquid soap, let it work for ten minutes, and wash the shirt as usual. For an old stain, try vinegar."),
    ("What happened in 1969?", "In July 1969 the mission Apollo 11 landed on the moon. Neil Armstrong and Buzz Aldrin walked on its surface, while Michael Collins stayed in orbit."),
    ("Write a loop in Python that prints the numbers from 1 to 5.", "for number in range(1, 6):\n    print(number)"),
    ("What are the benefits of walking?", "Walking strengthens the heart, improves the mood and helps to keep a healthy weight. It is easy on the joints, costs nothing and can be done almost anywhere."),
    ("How is cheese made?", "Cheese is made from milk. Bacteria and rennet make the milk curdle, the solid curds are separated from the whey, and then they are salted, pressed and left to ripen."),
    ("What is the theory of evolution?", "Evolution is the change of living things over many generations. Individuals differ, those that fit their surroundings have more young, and so their traits become more common."),
    ("Which planet is the largest?", "Jupiter is the largest planet of the solar system. It is a gas giant, more than eleven times as wide as the Earth, and it has a storm called the Great Red Spot."),
)  # fmt: skip
